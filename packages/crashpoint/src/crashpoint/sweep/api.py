"""Sweep somebody's own program: functions in process or forked, or commands in any language."""

from __future__ import annotations

import inspect
import math
import os
import re
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from crashpoint.inside.points import CHANGES
from crashpoint.ledger.control import LedgerFault
from crashpoint.procs.run_folder import FolderFault
from crashpoint.receivers.dialect import KEYED, Dialect
from crashpoint.receivers.host import HostFault
from crashpoint.receivers.ops import RECEIVERS
from crashpoint.receivers.person import TRUTHFUL, ScriptedPerson
from crashpoint.receivers.routes import payments, person, routed, tracker
from crashpoint.sweep.effects import ByContent, Name, name_by_content
from crashpoint.sweep.engine import Crasher, Sweep, Wandering
from crashpoint.sweep.faults import FaultSweep, SweepFaultKind
from crashpoint.sweep.folder import Mount
from crashpoint.sweep.forked import ForkExecutor
from crashpoint.sweep.quiet import QuietCrasher
from crashpoint.sweep.real import real_crasher
from crashpoint.sweep.report import Report
from crashpoint.sweep.scratch import memory_folder, remove_what_is_left, scratch_folder
from crashpoint.sweep.spawned import SpawnExecutor
from crashpoint.sweep.story import Teller
from crashpoint.sweep.words import Scenario, SweepFault

__all__ = ["MODES", "Job", "Options", "path_of", "sweep"]

MODES: Final = ("raise", "fork", "spawn")
STORIES_S: Final = 3.0
STORIES_SHARE: Final = 0.2
"""How long stories may take: so many seconds, or this share of the sweep's own time."""

LESSONS_MAX: Final = 4
"""How often clean runs may show yet another argument that is never the same."""

Entry = Callable[..., Any] | str | Sequence[str]


@dataclass(frozen=True)
class Job:
    """A program: how it is started, how it is resumed (default: the same way), what it is called.

    A function may take any of `folder` (its state folder, also the working directory), `tracker`,
    `payments` and `person`, by these names; it may be async. A command is a string as for a shell,
    or a list of arguments; it runs in its state folder, so files that it names and that are there
    when the sweep begins are given to it by their whole path.
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
    expected: Mapping[str, int] | None = None
    """How often each operation should cross in a run without a crash, such as {"refund": 2}.

    A fault that shows without any crash is part of that run, and seen only beside this. None: known
    of a ScriptedModel that uses an id for several calls, else not checked.
    """
    fault: SweepFaultKind = SweepFaultKind.KILL
    """What happens to the first process."""


def sweep(
    job: Job,
    options: Options = Options(),
    *,
    only: str | None = None,
    again: str = "",
    tell: Callable[[Scenario, Report], None] = lambda _scenario, _report: None,
    stopped: Callable[[], bool] = lambda: False,
    stories: int = 1,
) -> Report:
    """Crash the job everywhere and return what it came to; `only` is the id of one scenario.

    `tell` hears each scenario as it is judged. When `stopped` says so, KeyboardInterrupt is raised
    before the next is counted. The worst failures, one of a class and at most `stories`, are run
    once more to be told in full. Raises SweepFault with one line for a job that cannot be swept.
    """
    begun = time.monotonic()
    place = _relative_to(Path.cwd())
    if options.name is name_by_content:
        options = replace(options, name=ByContent())
    with _told_in_one_line(), crasher_for(job, options) as crasher:
        run = _discovered(crasher, options)
        at_points = options.fault in {SweepFaultKind.KILL, SweepFaultKind.WRONG_ANSWER}
        report = Report(
            job=job.name,
            mode=options.mode,
            basis=crasher.basis,
            depth=options.depth,
            fault=options.fault,
            points=run.found.points,
            places=[place(p) for p in run.found.places] if at_points else [],
            clean=run.found.seen,
            already=run.found.faults(),
            again=again,
        )
        path = None if only is None else path_of(only)
        asked: list[Scenario] = []
        for scenario in run.scenarios(path):
            if stopped():
                raise KeyboardInterrupt
            if path is not None and scenario.id != only:
                raise SweepFault(
                    f"the program has changed: what was {only} is {scenario.id} now; sweep it again"
                )
            report.add(scenario)
            report.processes, report.recovered = run.processes, run.recovered
            report.seconds = time.monotonic() - begun
            tell(scenario, report)
            if path is not None:
                asked.append(scenario)
        if path is not None and not asked:
            raise SweepFault(f"there is no scenario {only} (any more); sweep the program again")
        teller = Teller(run, crasher, fault=options.fault, place=place, name=options.name)
        _tell(teller, report, asked or report.exemplars(stories))
    report.complete = only is None
    return report


@contextmanager
def _told_in_one_line() -> Iterator[None]:
    """What goes wrong with the bench itself is a SweepFault like any other."""
    try:
        yield
    except (HostFault, LedgerFault, FolderFault) as fault:
        raise SweepFault(str(fault)) from fault
    except ConnectionError as error:
        raise SweepFault(f"a receiver or the ledger went away: {error}") from error


def _tell(teller: Teller[Any], report: Report, scenarios: Sequence[Scenario]) -> None:
    """Tell the first, and more while that takes little time beside the sweep itself."""
    until = time.monotonic() + max(STORIES_S, STORIES_SHARE * report.seconds)
    for scenario in scenarios:
        if report.stories and time.monotonic() > until:
            return
        report.stories.append(teller.tell(scenario))


def _relative_to(folder: Path) -> Callable[[str], str]:
    """Shortens a place in code that lies below the folder."""
    within = f"{folder}{os.sep}"
    return lambda place: place.removeprefix(within)


def _discovered(crasher: Any, options: Options) -> Sweep[Any]:
    """The sweep; content that is another one in each run is left out of the effects' names."""
    for _ in range(LESSONS_MAX):
        try:
            return _sweep_over(crasher, options)
        except Wandering:
            naming = options.name
            if not isinstance(naming, ByContent) or not naming.learn(
                _clean_records(crasher), _clean_records(crasher)
            ):
                raise
    return _sweep_over(crasher, options)


def _clean_records(crasher: Any) -> list[dict[str, Any]]:
    world = crasher.fresh()
    crasher.run(world, resume=False, at=0)
    records: list[dict[str, Any]] = crasher.records(world)
    crasher.drop(world)
    return records


def _sweep_over(crasher: Any, options: Options) -> Sweep[Any]:
    common: dict[str, Any] = {
        "depth": options.depth,
        "result": options.compare_result,
        "expected": options.expected,
    }
    if options.fault in {SweepFaultKind.KILL, SweepFaultKind.WRONG_ANSWER}:
        return Sweep(crasher, dedupe=options.dedupe, **common)
    return FaultSweep(crasher, options.fault, **common)


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
    _check(options)
    remove_what_is_left()
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
    with scratch_folder(memory_folder()) as folder:
        mount = Mount.make(folder, options.receivers, person=options.person, name=options.name)
        routes: dict[str, Any] = {}
        for name, twin in mount.twins.items():
            routes |= {name: twin, f"{name}/person": twin.person}
        crasher = QuietCrasher(
            mount,
            start=lambda world: _call(start, world.folder),
            resume=lambda world: _call(resume, world.folder),
            limit_s=options.limit_s,
            memory_of=(start, resume),
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
    given = {name: OFFERED[name] for name in _parameters(function)}
    return function(**{name: folder if make is None else make() for name, make in given.items()})


OFFERED: Final[Mapping[str, Callable[[], Any] | None]] = MappingProxyType(
    {"folder": None, "tracker": tracker, "payments": payments, "person": person}
)
"""What a function may have by naming it; the folder is that of the world it runs in."""


def _parameters(function: Callable[..., Any]) -> list[str]:
    """The names in OFFERED that a function takes; raises SweepFault when it needs another one."""
    wanted: list[str] = []
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some that are written in C do not say
        return wanted
    for name, parameter in signature.parameters.items():
        if name in OFFERED and parameter.kind is not parameter.POSITIONAL_ONLY:
            wanted.append(name)
        elif parameter.default is parameter.empty and parameter.kind not in {
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
        }:
            called = getattr(function, "__qualname__", repr(function))
            raise SweepFault(
                f"{called} needs an argument {name!r}, and a sweep has only {', '.join(OFFERED)}: "
                "bind it with functools.partial or a closure"
            )
    return wanted


def _check(options: Options) -> None:
    """Refuse options that mean nothing; raises SweepFault."""
    if options.mode not in MODES:
        raise SweepFault(f"no mode {options.mode!r}; there are {', '.join(MODES)}")
    depth: Any = options.depth
    if type(depth) is not int or depth < 1:
        raise SweepFault(f"depth must be a whole number from 1, not {depth!r}")
    limit_s: Any = options.limit_s
    if type(limit_s) not in {int, float} or not 0 < limit_s < math.inf:
        raise SweepFault(f"limit_s must be seconds above 0, not {limit_s!r}")
    for op, wanted in (options.expected or {}).items():
        if op not in CHANGES or type(wanted) is not int or wanted < 0:
            known = ", ".join(sorted(CHANGES))
            raise SweepFault(f"expected: {op!r}: {wanted!r} is no number of {known}")
    for name in options.receivers:
        if name not in RECEIVERS:
            raise SweepFault(f"no receiver {name!r}; there are {', '.join(RECEIVERS)}")


def _function(entry: Entry) -> Callable[..., Any]:
    if callable(entry):
        _parameters(entry)
        return entry
    if not _is_command(entry):
        raise SweepFault(f"{entry!r} is neither a function nor a command")
    words = entry if isinstance(entry, str) else shlex.join(entry)
    raise SweepFault(f"{words!r} is a command: sweep it with mode spawn")


def _command(entry: Entry) -> Sequence[str]:
    """Its arguments, files of the current folder by their whole path: it runs in another one."""
    if callable(entry):
        raise SweepFault(f"{entry!r} is a function: sweep it with mode raise or fork")
    if not _is_command(entry):
        raise SweepFault(f"{entry!r} is no command: give a string or a list of arguments")
    words = shlex.split(entry) if isinstance(entry, str) else list(entry)
    if not words:
        raise SweepFault("the command is empty")
    return [str(Path(word).absolute()) if Path(word).is_file() else word for word in words]


def _is_command(entry: Any) -> bool:
    return isinstance(entry, str) or (
        isinstance(entry, Sequence) and all(isinstance(word, str) for word in entry)
    )
