"""Sweep somebody's own program: functions in process or forked, or commands in any language."""

from __future__ import annotations

import inspect
import re
import shlex
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from crashpoint.receivers.dialect import KEYED, Dialect
from crashpoint.receivers.person import TRUTHFUL, ScriptedPerson
from crashpoint.receivers.routes import payments, person, routed, tracker
from crashpoint.sweep.engine import Crasher, Sweep
from crashpoint.sweep.folder import FolderCrasher, Mount, Name, name_by_content
from crashpoint.sweep.forked import ForkExecutor
from crashpoint.sweep.real import real_crasher
from crashpoint.sweep.report import Report
from crashpoint.sweep.spawned import SpawnExecutor
from crashpoint.sweep.table import memory_folder
from crashpoint.sweep.words import Scenario, SweepFault

__all__ = ["MODES", "Job", "Options", "path_of", "sweep"]

MODES: Final = ("raise", "fork", "spawn")

Entry = Callable[..., Any] | Sequence[str]


@dataclass(frozen=True)
class Job:
    """A program: how it is started, how it is resumed (default: the same way), what it is called.

    A function may take any of `folder` (its state folder, also the working directory), `tracker`,
    `payments` and `person`, by these names; it may be async. A command is a list of arguments.
    """

    start: Entry
    resume: Entry | None = None
    name: str = "job"


@dataclass(frozen=True)
class Options:
    """How to sweep it."""

    mode: str = "raise"
    depth: int = 2
    limit_s: float = 10.0
    """Longest one process may take, seconds."""
    dedupe: bool = True
    """Recover equal worlds once."""
    compare_result: bool = True
    """Compare what a recovered run returns with what a run without a crash returns."""
    receivers: Mapping[str, Dialect] = field(
        default_factory=lambda: {"tracker": KEYED, "payments": KEYED}
    )
    person: ScriptedPerson = TRUTHFUL
    name: Name = name_by_content
    """Names an effect by what does not change between two runs."""


def sweep(
    job: Job,
    options: Options = Options(),
    *,
    only: str | None = None,
    again: str = "",
    tell: Callable[[Scenario, Report], None] = lambda _scenario, _report: None,
) -> Report:
    """Crash the job everywhere and return what it came to; `only` is the id of one scenario.

    `tell` hears each scenario as it is judged. Raises SweepFault with one line for a job that cannot
    be swept.
    """
    begun = time.monotonic()
    with crasher_for(job, options) as crasher:
        run = Sweep(
            crasher, depth=options.depth, dedupe=options.dedupe, result=options.compare_result
        )
        report = Report(
            job=job.name,
            mode=options.mode,
            basis=crasher.basis,
            depth=options.depth,
            fault="kill",
            points=run.found.points,
            places=run.found.places,
            clean=run.found.seen,
            again=again,
        )
        path = None if only is None else path_of(only)
        for scenario in run.scenarios(path):
            if path is not None and scenario.id != only:
                raise SweepFault(
                    f"the program has changed: what was {only} is {scenario.id} now; sweep it again"
                )
            report.add(scenario)
            report.processes, report.recovered = run.processes, run.recovered
            report.seconds = time.monotonic() - begun
            tell(scenario, report)
    report.complete = only is None
    return report


def path_of(scenario_id: str) -> tuple[int, ...]:
    """The numbers in a scenario's id; raises SweepFault for anything else."""
    parts = re.findall(r"(?:^|\.)(\d+)-[^.]*(?:\.(?!\d+-)[^.]*)*", scenario_id)
    path = tuple(map(int, parts))
    if not path or not re.match(r"\d+-", scenario_id):
        raise SweepFault(
            f"{scenario_id!r} is no scenario: an id looks like 8-accepted:comment.3-renamed"
        )
    return path


@contextmanager
def crasher_for(job: Job, options: Options) -> Iterator[Crasher[Any]]:
    """The crasher that the options ask for, over the job."""
    if options.mode not in MODES:
        raise SweepFault(f"no mode {options.mode!r}; there are {', '.join(MODES)}")
    start, resume = job.start, job.resume if job.resume is not None else job.start
    if options.mode == "spawn":
        with _spawning(_command(start), _command(resume), options) as crasher:
            yield crasher
    elif options.mode == "fork":
        with _forking(_function(start), _function(resume), options) as crasher:
            yield crasher
    else:
        with _raising(_function(start), _function(resume), options) as crasher:
            yield crasher


@contextmanager
def _raising(
    start: Callable[..., Any], resume: Callable[..., Any], options: Options
) -> Iterator[Crasher[Any]]:
    with tempfile.TemporaryDirectory(prefix="crashpoint-", dir=memory_folder()) as folder:
        mount = Mount.make(
            Path(folder), options.receivers, person=options.person, name=options.name
        )
        routes: dict[str, Any] = {}
        for name, twin in mount.twins.items():
            routes |= {name: twin, f"{name}/person": twin.person}
        crasher = FolderCrasher(
            mount,
            start=lambda world: _call(start, world.folder),
            resume=lambda world: _call(resume, world.folder),
            limit_s=options.limit_s,
        )
        with routed(routes), crasher:
            yield crasher


@contextmanager
def _forking(
    start: Callable[..., Any], resume: Callable[..., Any], options: Options
) -> Iterator[Crasher[Any]]:
    def make(_sockets: Path) -> ForkExecutor:
        return ForkExecutor(
            lambda folder: _call(start, Path(folder)), lambda folder: _call(resume, Path(folder))
        )

    with routed({}), _real(make, options) as crasher:
        yield crasher


@contextmanager
def _spawning(
    start: Sequence[str], resume: Sequence[str], options: Options
) -> Iterator[Crasher[Any]]:
    def make(sockets: Path) -> SpawnExecutor:
        return SpawnExecutor(start, resume, sockets / "points.sock")

    with _real(make, options) as crasher:
        yield crasher


def _real(make: Callable[[Path], Any], options: Options) -> Any:
    return real_crasher(
        make,
        dialects=options.receivers,
        person=options.person,
        limit_s=options.limit_s,
        name=options.name,
    )


def _call(function: Callable[..., Any], folder: Path) -> Any:
    """Call with as much of the bench as the function's parameters name."""
    offered: dict[str, Callable[[], Any]] = {
        "folder": lambda: folder,
        "tracker": tracker,
        "payments": payments,
        "person": person,
    }
    return function(**{name: offered[name]() for name in _parameters(function, offered)})


def _parameters(function: Callable[..., Any], offered: Mapping[str, Any]) -> list[str]:
    wanted = []
    for name, parameter in inspect.signature(function).parameters.items():
        if name in offered:
            wanted.append(name)
        elif parameter.default is parameter.empty and parameter.kind not in {
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
        }:
            raise SweepFault(
                f"{function.__qualname__} wants {name!r}, which a sweep does not have: it has "
                f"{', '.join(offered)}; bind it with functools.partial or a closure"
            )
    return wanted


def _function(entry: Entry) -> Callable[..., Any]:
    if not callable(entry):
        raise SweepFault(f"{shlex.join(entry)!r} is a command: sweep it with mode spawn")
    return entry


def _command(entry: Entry) -> Sequence[str]:
    if callable(entry):
        raise SweepFault(f"{entry!r} is a function: sweep it with mode raise or fork")
    if not entry:
        raise SweepFault("the command is empty")
    return entry
