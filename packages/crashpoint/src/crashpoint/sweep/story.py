"""What happened in one scenario, process by process: it is run again, and all is written down.

The points passed and where it died, the requests sent and what the receivers did with them, the
files that changed, how it ended; and what the receivers hold in the end, beside a run without a
crash.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from crashpoint.canonical import NotCanonical, canonical
from crashpoint.model import Outcome
from crashpoint.pipeline.judge import Result
from crashpoint.sweep.engine import RETRIES, Crasher, Sweep, judge
from crashpoint.sweep.faults import FaultSweep
from crashpoint.sweep.folder import Name, files_below, name_by_content, seen_in
from crashpoint.sweep.report import code_of, said
from crashpoint.sweep.words import DISCOVER, Process, Scenario, Seen, Verdict, When

__all__ = ["Change", "Death", "Story", "Teller", "Told"]

TEXT_MAX: Final = 4096
"""Characters of a file, a result or a message that are kept; more is cut, and said to be."""
POINTS_KEPT: Final = 2000
"""Points of a process that are kept by name, the last ones."""
CHANGES_KEPT: Final = 50
REQUESTS_KEPT: Final = 200
PRINTED_KEPT: Final = 2000
"""Characters."""

W = TypeVar("W")


@dataclass(frozen=True)
class Death:
    """Where a process was crashed: its n-th point, and the line of code if that is known."""

    n: int
    name: str
    place: str


@dataclass(frozen=True)
class Change:
    """A file that a process made, changed or removed; texts are None for what is no short text."""

    path: str
    what: str
    size: int
    before: str | None
    after: str | None


@dataclass(frozen=True)
class Told:
    """One process: `entry` is start or resume, `when` as in words.When."""

    entry: str
    when: str
    points: int
    names: list[str]
    """The last POINTS_KEPT of them."""
    died: Death | None
    said: str
    requests: list[dict[str, Any]]
    """The receivers' records that it caused: receiver, op, args, key, did, id, effect."""
    changes: list[Change]
    printed: str
    """The end of what it printed."""


@dataclass(frozen=True)
class Story:
    """One scenario told. `code` and `said` are of this run, which may differ from the sweep's."""

    id: str
    path: list[int]
    names: list[str]
    code: str
    said: str
    fault: str
    processes: list[Told]
    effects: list[dict[str, Any]]
    """name, and how often it crossed: `clean` without a crash, `now` here."""
    results: dict[str, str | None]
    """What was returned, `clean` and `now`, as text; None: nothing, or it did not end."""
    asks: dict[str, int]
    model_calls: dict[str, int]
    late: list[dict[str, Any]] = field(default_factory=list)
    """Requests that were still on their way and were done after all processes had ended."""
    remarks: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """The story as JSON values."""
        return asdict(self)


@dataclass
class _Look:
    """A world as it is at one moment."""

    files: Mapping[str, bytes] = field(default_factory=dict)
    records: Sequence[dict[str, Any]] = ()
    printed: int = 0
    """Bytes printed so far, where processes share a file."""


class _Strayed(Exception):
    """A process did not die where it was to be crashed."""

    def __init__(self, why: str, world: Any, process: Process) -> None:
        super().__init__(why)
        self.world = world
        self.process = process


class Teller(Generic[W]):
    """Tells scenarios of a sweep that has discovered its program; uses the same crasher."""

    def __init__(
        self,
        run: Sweep[W],
        crasher: Crasher[W],
        *,
        fault: str = "kill",
        place: Callable[[str], str] = str,
        name: Name = name_by_content,
    ) -> None:
        self._run = run
        self._crasher = crasher
        self._fault = fault
        self._place = place
        self._name = name
        self._clean: Process | None = None
        self._late: list[dict[str, Any]] = []

    def tell(self, scenario: Scenario) -> Story:
        """Run the scenario again and write it down."""
        processes: list[Told] = []
        self._late = []
        strayed = None
        try:
            world, last = self._until_recovered(scenario, processes)
        except _Strayed as found:
            strayed, world, last = str(found), found.world, found.process
        seen = self._crasher.seen(world)
        self._crasher.drop(world)
        verdict = judge(self._run.found, last, seen)
        if strayed is not None:
            verdict = Verdict(Outcome.VOID, void=strayed)
        return self._story(scenario, verdict, processes, last, seen)

    def _until_recovered(self, scenario: Scenario, processes: list[Told]) -> tuple[W, Process]:
        """The world in the end, and the process that ran last."""
        faulty = self._run.faulty if isinstance(self._run, FaultSweep) else None
        world, last = self._first(scenario, processes)
        if faulty is not None:
            faulty.heal(world)
        for n, name in zip(scenario.path[1:], scenario.names[1:], strict=True):
            world, last = self._crash(world, n, name, processes)
        if last.when in {When.CRASHED, When.FAILED}:
            last = self._recover(world, processes)
        if faulty is not None:
            faulty.heal(world)
            before = self._look(world)
            faulty.settle(world)
            self._late = self._requests(before, self._look(world))
        return world, last

    def _story(
        self,
        scenario: Scenario,
        verdict: Verdict,
        processes: list[Told],
        last: Process,
        seen: Seen,
    ) -> Story:
        clean = self._clean_run()
        usual = self._run.found.seen
        remarks = []
        if code_of(verdict) != code_of(scenario.verdict):
            remarks.append(
                f"in the sweep this scenario was {said(scenario.verdict)}; run again, it is "
                f"{said(verdict)}: the program is not deterministic"
            )
        ended = last.when is When.ENDED
        checked = verdict.result is not Result.NOT_CHECKED
        return Story(
            id=scenario.id,
            path=list(scenario.path),
            names=[_text(name) for name in scenario.names],
            code=code_of(verdict),
            said=said(verdict),
            fault=self._fault,
            processes=processes,
            effects=[
                {
                    "name": _text(name),
                    "clean": len(usual.crossings.get(name, ())),
                    "now": len(seen.crossings.get(name, ())),
                }
                for name in {**usual.crossings, **seen.crossings}
            ],
            results={
                "clean": _shown(clean.result) if checked else None,
                "now": _shown(last.result) if ended and checked else None,
            },
            asks={"clean": usual.asks, "now": seen.asks},
            model_calls={"clean": usual.model_calls, "now": seen.model_calls},
            late=self._late,
            remarks=remarks,
        )

    def _clean_run(self) -> Process:
        if self._clean is None:
            world = self._crasher.fresh()
            self._clean = self._crasher.run(world, resume=False, at=0)
            self._crasher.drop(world)
        return self._clean

    def _first(self, scenario: Scenario, processes: list[Told]) -> tuple[W, Process]:
        """The first process: it meets the sweep's fault, and dies of it or goes on."""
        n, name = scenario.path[0], scenario.names[0]
        if isinstance(self._run, FaultSweep):
            world, process = self._run.meet(n)
            death = Death(n, name, "") if process.when is When.CRASHED else None
            processes.append(self._told("start", world, process, _Look(), death))
            return world, process
        world = self._crasher.fresh()
        return world, self._die(world, n, name, self._run.found.places, processes)

    def _crash(self, world: W, n: int, name: str, processes: list[Told]) -> tuple[W, Process]:
        """Crash a restart at a point, having found out where in the code that is."""
        snapshot = self._crasher.snapshot(world)
        places = self._crasher.run(world, resume=True, at=DISCOVER).places
        self._crasher.drop(world)
        world = self._crasher.restore(snapshot)
        return world, self._die(world, n, name, places, processes)

    def _die(
        self, world: W, n: int, name: str, places: Sequence[str], processes: list[Told]
    ) -> Process:
        """Crash one process and tell it; raises _Strayed when it does not die there."""
        entry = "resume" if processes else "start"
        before = self._look(world)
        process = self._crasher.run(world, resume=entry == "resume", at=n)
        place = self._place(places[n - 1]) if n <= len(places) else ""
        death = Death(n, _text(name), place)
        processes.append(self._told(entry, world, process, before, death))
        if process.when is not When.CRASHED or process.passed[-1] != name:
            last = process.passed[-1] if process.passed else "no point"
            raise _Strayed(
                f"this time it did not die at point {n}, {name}, but {process.when} after {last}"
                + (f": {process.said}" if process.said else ""),
                world,
                process,
            )
        return process

    def _recover(self, world: W, processes: list[Told]) -> Process:
        """Restart as the sweep does."""
        tries = 0
        while True:
            before = self._look(world)
            process = self._crasher.run(world, resume=True, at=0)
            processes.append(self._told("resume", world, process, before, None))
            tries += 1
            if process.when is not When.FAILED or tries == RETRIES:
                return process

    def _look(self, world: Any) -> _Look:
        crasher: Any = self._crasher
        folder: Path = world.folder if hasattr(world, "folder") else world.state
        output = folder.parent / "output"
        size = 0 if hasattr(crasher, "printed") or not output.exists() else output.stat().st_size
        return _Look(files_below(folder), crasher.records(world), size)

    def _told(
        self, entry: str, world: Any, process: Process, before: _Look, death: Death | None
    ) -> Told:
        after = self._look(world)
        return Told(
            entry=entry,
            when=process.when,
            points=len(process.passed),
            names=[_text(name) for name in process.passed[-POINTS_KEPT:]],
            died=death if process.when is When.CRASHED else None,
            said=_text(process.said),
            requests=self._requests(before, after),
            changes=_changes(before.files, after.files)[:CHANGES_KEPT],
            printed=_end(self._printed(world, before.printed)),
        )

    def _requests(self, before: _Look, after: _Look) -> list[dict[str, Any]]:
        """What receivers recorded meanwhile, each with the effect that it is."""
        effects = self._effects(after.records)
        added = _new(before.records, after.records)[:REQUESTS_KEPT]
        return [{**_request(after.records[n]), "effect": effects.get(n)} for n in added]

    def _effects(self, records: Sequence[dict[str, Any]]) -> dict[int, str]:
        """The names of the effects that records crossed as, or were swallowed instead of."""
        effects: dict[int, str] = {}
        for receiver in {record["receiver"] for record in records}:
            own = [n for n, record in enumerate(records) if record["receiver"] == receiver]
            known: set[tuple[str, int]] = set()
            for upto, n in enumerate(own[:REQUESTS_KEPT], start=1):
                crossings, swallowed = seen_in([records[i] for i in own[:upto]], self._name)
                now = {(name, len(actions)) for name, actions in crossings.items()}
                now |= {(name, 0) for name in swallowed}
                for name, _ in now - known:
                    effects[n] = _text(name)
                known = now
        return effects

    def _printed(self, world: Any, since: int) -> str:
        """What the process that ran last has printed: kept by the crasher, or in a file."""
        crasher: Any = self._crasher
        if hasattr(crasher, "printed"):
            return str(crasher.printed)
        try:
            with (world.state.parent / "output").open("rb") as file:
                file.seek(max(since, os.fstat(file.fileno()).st_size - TEXT_MAX))
                data: bytes = file.read(TEXT_MAX)
        except FileNotFoundError:
            return ""
        return data.decode(errors="backslashreplace")


def _new(before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]]) -> list[int]:
    """Which records were added: each receiver's stand in order, and receivers one by one."""
    known: dict[str, int] = {}
    for record in before:
        known[record["receiver"]] = known.get(record["receiver"], 0) + 1
    added = []
    for n, record in enumerate(after):
        left = known.get(record["receiver"], 0)
        if left:
            known[record["receiver"]] = left - 1
        else:
            added.append(n)
    return added


def _request(record: Mapping[str, Any]) -> dict[str, Any]:
    told = {name: record[name] for name in ("receiver", "op", "args", "key", "did", "id")}
    try:
        canonical(told)
    except NotCanonical:
        return {**told, "args": _text(ascii(told["args"])), "key": _text(ascii(told["key"]))}
    return told


def _changes(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> list[Change]:
    changes = []
    for path in sorted(before.keys() | after.keys()):
        old, new = before.get(path), after.get(path)
        if old != new and not path.endswith("/"):
            what = "made" if old is None else "removed" if new is None else "changed"
            changes.append(Change(_text(path), what, len(new or b""), _content(old), _content(new)))
    return changes


def _content(data: bytes | None) -> str | None:
    if data is None:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return _cut(text) if "\0" not in text else None


def _shown(value: Any) -> str | None:
    if value is None:
        return None
    try:
        return _text(json.dumps(value, ensure_ascii=False))
    except (TypeError, ValueError):
        return _text(ascii(value))


def _text(text: str) -> str:
    """As it is, but for what JSON cannot hold and what is too long."""
    return _cut(text.encode(errors="backslashreplace").decode())


def _end(text: str) -> str:
    return text[-PRINTED_KEPT:].encode(errors="backslashreplace").decode()


def _cut(text: str) -> str:
    if len(text) <= TEXT_MAX:
        return text
    return f"{text[:TEXT_MAX]}... ({len(text):,} characters)"
