"""What the fixture `crash_sweep` does: sweep a test's job, and turn what is wrong into a failure.

`crashpoint.pytest_plugin` makes one for each test that asks for it, and imports this only then.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from crashpoint.receivers.dialect import Dialect, DialectError
from crashpoint.receivers.person import TRUTHFUL, ScriptedPerson
from crashpoint.sweep.api import Job, Options, sweep
from crashpoint.sweep.faults import SweepFaultKind
from crashpoint.sweep.folder import Name, name_by_content
from crashpoint.sweep.report import Report
from crashpoint.sweep.words import Scenario, Seen, SweepFault

if TYPE_CHECKING:
    from crashpoint.sweep.api import Entry

__all__ = ["STORIES_MAX", "CrashSweep", "Test"]

STORIES_MAX: Final = 40
"""Failing scenarios that a written report tells in full."""
Tell = Callable[[Scenario, Report], None]


@dataclass(frozen=True)
class Test:
    """The test that sweeps: its node id, the command that runs it, and what was asked for."""

    __test__ = False

    node: str
    command: str
    """`pytest PATH::TEST`, with the options that decide which scenarios there are."""
    mode: str
    depth: int
    only: str | None
    folder: Path | None
    """Where reports are written, if they are."""
    fail: Callable[[str], NoReturn]
    """Fails the test with one line."""
    show: Callable[[str], None]
    """Prints the story that was asked for."""
    watch: Callable[[], tuple[Tell, Callable[[], None]]]
    """Begins to show how far a sweep is: who hears each scenario, and what ends the showing."""


class CrashSweep:
    """The fixture: call it with a job, get a Report. Several calls in one test are numbered."""

    def __init__(self, test: Test) -> None:
        self._test = test
        self._calls = 0
        self._wanted, self._id = _split(test.only)
        self._found = False

    def __call__(
        self,
        start: Entry,
        resume: Entry | None = None,
        *,
        depth: int | None = None,
        mode: str | None = None,
        receivers: Mapping[str, str | Dialect] | None = None,
        person: ScriptedPerson | None = None,
        limit_s: float = 10.0,
        dedupe: bool = True,
        compare_result: bool = True,
        effect: Name | None = None,
        expected: Mapping[str, int] | None = None,
        fault: str = "kill",
    ) -> Report:
        """Crash `start` at every point and every restart, `resume`, at every point it reaches.

        `receivers` gives each its dialect, by name or as a Dialect; `effect` names an effect from a
        request's operation and arguments; the other arguments are those of `sweep.api.Options`.
        What is not given comes from the command line or the ini file. A job that cannot be swept
        fails the test with one line.
        """
        self._calls += 1
        number = self._calls
        given = Options()
        try:
            options = Options(
                mode=mode or self._test.mode,
                depth=self._test.depth if depth is None else depth,
                limit_s=limit_s,
                dedupe=dedupe,
                compare_result=compare_result,
                receivers=given.receivers if receivers is None else _dialects(receivers),
                person=person or TRUTHFUL,
                name=effect or name_by_content,
                expected=expected,
                fault=_fault(fault),
            )
            return self._run(number, Job(start, resume, name=_name_of(start)), options)
        except (SweepFault, DialectError) as problem:
            said = f"crash_sweep: {problem}\n{self._test.node}"
        # Outside of the handler, or pytest would print both exceptions.
        return self._test.fail(said + (f", sweep {number}" if number > 1 else ""))

    def close(self) -> None:
        """At the end of the test: a scenario that was asked for must have been run."""
        if self._test.only is not None and not self._found:
            self._test.fail(
                f"crash_sweep: --crash-only {self._test.only} was not run: {self._test.node} "
                f"made {self._calls} sweep{'s' if self._calls != 1 else ''}"
            )

    def _run(self, number: int, job: Job, options: Options) -> Report:
        if _in_event_loop():
            raise SweepFault("a sweep runs event loops of its own: call it from a plain test")
        if self._test.only is not None and number != self._wanted:
            return _not_asked_for(job, options)
        self._found = True
        tell, end = self._test.watch()
        try:
            report = sweep(
                job,
                options,
                only=self._id,
                again=f"{self._test.command} --crash-only",
                tell=tell,
                stories=STORIES_MAX if self._test.folder else 1,
            )
        finally:
            end()
        report.prefix = f"{number}/" if number > 1 else ""
        if self._test.only is not None:
            self._show(report)
        elif self._test.folder is not None:
            self._write(self._test.folder, report, number)
        return report

    def _show(self, report: Report) -> None:
        from crashpoint.report.sweep_text import story
        from crashpoint.sweep.report import as_json

        told = as_json(report)
        self._test.show(story(told["stories"][0], told))

    def _write(self, folder: Path, report: Report, number: int) -> None:
        from crashpoint.sweep import repro
        from crashpoint.sweep.document import document_of, publish

        name = _file_name(self._test.node) + (f".{number}" if number > 1 else "")
        worst = report.worst
        if worst is not None:
            where = folder / f"{name}.repro.py"
            repro.write_test(where, self._test.command, report.prefix + worst.id)
            report.repro = os.path.relpath(where)
        command = f"{self._test.command} --crash-report={os.path.relpath(folder)}"
        publish(document_of(report, name, command=command), folder, name)


def _split(only: str | None) -> tuple[int, str | None]:
    """Which sweep of the test is meant, and the scenario's id: `2/8-accepted:file`."""
    if only is None:
        return 0, None
    found = re.fullmatch(r"(?s)(?:(\d+)/)?(\d+-.*)", only)
    return (int(found[1] or 1), found[2]) if found else (1, only)


def _fault(name: str) -> SweepFaultKind:
    try:
        return SweepFaultKind(name)
    except ValueError:
        raise SweepFault(f"no fault {name!r}; there are {', '.join(SweepFaultKind)}") from None


def _dialects(receivers: Mapping[str, str | Dialect]) -> dict[str, Dialect]:
    return {
        name: dialect if isinstance(dialect, Dialect) else Dialect.parse(dialect)
        for name, dialect in receivers.items()
    }


def _name_of(entry: Any) -> str:
    """A job's name for people."""
    if isinstance(entry, str):
        return entry
    if isinstance(entry, Sequence):
        return shlex.join(map(str, entry))
    while hasattr(entry, "func"):
        entry = entry.func
    name = getattr(entry, "__qualname__", None) or type(entry).__qualname__
    return str(name).rpartition("<locals>.")[2]


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _not_asked_for(job: Job, options: Options) -> Report:
    return Report(
        job=job.name,
        mode=options.mode,
        basis="",
        depth=options.depth,
        fault=options.fault,
        points=(),
        places=(),
        clean=Seen({}),
        skipped=True,
    )


def _file_name(node: str) -> str:
    """A file's name for a test's node id, another one for each."""
    name = re.sub(r"[^A-Za-z0-9_]+", "-", node.replace(".py::", "-")).strip("-")
    digest = sha256(node.encode()).hexdigest()[:6]
    plain = re.fullmatch(r"[A-Za-z0-9_/]+\.py(::[A-Za-z0-9_]+)+", node)
    return name[:80] if plain and len(name) <= 80 else f"{name[:73]}-{digest}"
