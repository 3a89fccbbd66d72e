"""S3's table from runs of the five designs, in the ways in which they can be crashed.

Scenarios are counted, not listed: what a design came to are seven sums and how many of its single
crashes left a duplicate.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, Self

from crashpoint.inside.points import allow, point
from crashpoint.inside.store import FileStore
from crashpoint.receivers.client import Person, Tracker, connect, person_of
from crashpoint.receivers.dialect import KEYED, NOTHING, Dialect
from crashpoint.receivers.twin import TwinTransport
from crashpoint.sweep.designs import REPLIES, Call, Design, run_design
from crashpoint.sweep.engine import Crasher, Sweep
from crashpoint.sweep.folder import FolderCrasher, Mount, name_by_content, seen_in
from crashpoint.sweep.forked import ForkExecutor
from crashpoint.sweep.inprocess import CopyCrasher
from crashpoint.sweep.real import real_crasher
from crashpoint.sweep.scratch import memory_folder, scratch_folder
from crashpoint.sweep.words import Scenario, Seen

__all__ = ["COLUMNS", "MODES", "Row", "as_table", "count"]


@dataclass
class Row:
    """One design's sums, in the order of S3's columns, and what is said beside its table."""

    variant: str
    once: int = 0
    twice: int = 0
    with_dups: int = 0
    dups: int = 0
    missing: int = 0
    asks: int = 0
    calls: int = 0
    single_dups: int = 0
    """Crash points at which a single crash leaves a duplicate."""
    void: int = 0

    def add(self, scenario: Scenario) -> None:
        """Count one."""
        verdict = scenario.verdict
        if len(scenario.path) == 1:
            self.once += 1
            self.single_dups += verdict.dups > 0
        else:
            self.twice += 1
        self.with_dups += verdict.dups > 0
        self.dups += verdict.dups
        self.missing += verdict.missing
        self.asks += verdict.asks
        self.calls += verdict.calls
        self.void += verdict.void is not None


COLUMNS: Final = ("once", "twice", "with dups", "dups", "missing", "asks", "calls+")


def count(design: Design, sweep: Sweep[Any], tell: Callable[[Scenario], None]) -> Row:
    """Sweep a design and sum its scenarios up; `tell` hears each."""
    row = Row(design.title)
    for scenario in sweep.scenarios():
        row.add(scenario)
        tell(scenario)
    return row


def as_table(rows: Sequence[Row]) -> str:
    """S3's table, and the three sentences that go with it."""
    lines = ["{:30}".format("variant") + "".join(f"{name:>10}" for name in COLUMNS)]
    for row in rows:
        values = [getattr(row, field.name) for field in fields(row)[1:8]]
        lines.append(f"{row.variant:30}" + "".join(f"{value:>10,}" for value in values))
    lines.append("")
    lines += [
        f"{row.variant}: duplicates at {row.single_dups} of {row.once} crash points"
        for row in rows
        if row.single_dups
    ]
    asking = [row for row in rows if row.asks]
    lines += [
        f"{row.variant}: {row.asks:,} questions in {row.once + row.twice:,} scenarios"
        for row in asking
    ]
    lines.append(f"{sum(row.once + row.twice for row in rows):,} scenarios")
    void = sum(row.void for row in rows)
    if void:
        lines.append(f"{void} of them VOID")
    return "\n".join(lines)


def dialect_of(design: Design) -> Dialect:
    """The tracker honours keys where the design sends them; it matters nowhere else."""
    return KEYED if design.keys else NOTHING


class MemoryOutside:
    """A whole world in memory: what was saved last, the tracker's twin, two counters."""

    __slots__ = ("_person", "_saved", "_tracker", "_twin", "model_calls")

    def __init__(self, twin: TwinTransport, saved: str | None = None, model_calls: int = 0) -> None:
        self._twin = twin
        self._tracker = Tracker(twin)
        self._person = Person(twin.person)
        self._saved = saved
        self.model_calls = model_calls

    def copy(self) -> Self:
        """An equal world."""
        twin = TwinTransport("tracker", self._twin.dialect)
        twin.state = self._twin.state
        return type(self)(twin, self._saved, self.model_calls)

    def key(self) -> Any:
        """Everything in it."""
        return self._saved, self._twin.state.key(), self.model_calls

    def seen(self) -> Seen:
        """What the tracker did."""
        state = self._twin.state
        crossings, _ = seen_in(state.crossings(), name_by_content)
        return Seen(crossings, state.asked, self.model_calls)

    def load(self) -> Any:
        """See `Outside`."""
        return None if self._saved is None else json.loads(self._saved)

    def save(self, state: Any) -> None:
        """See `Outside`; the two moments of a save are announced as a file's are."""
        allow()
        draft = _encode(state)
        point("tmp")
        self._saved = draft
        point("renamed")

    def reply(self, n: int) -> Sequence[Call]:
        """See `Outside`."""
        self.model_calls += 1
        point("reply")
        return REPLIES[n]

    def call(self, operation: str, arguments: dict[str, Any], key: str | None) -> Any:
        """See `Outside`."""
        return _send(self._tracker, operation, arguments, key)

    def ask(self, operation: str, arguments: dict[str, Any]) -> bool:
        """See `Outside`."""
        return self._person.ask(operation, _whole(operation, arguments))


class FileOutside:
    """The same with a real file, and a tracker wherever its clients lead."""

    def __init__(self, folder: str, tracker: Tracker, person: Person) -> None:
        store = FileStore(f"{folder}/state.json")
        self.load, self.save = store.load, store.save
        self._tracker = tracker
        self._person = person

    def reply(self, n: int) -> Sequence[Call]:
        """See `Outside`."""
        point("reply")
        return REPLIES[n]

    def call(self, operation: str, arguments: dict[str, Any], key: str | None) -> Any:
        """See `Outside`."""
        return _send(self._tracker, operation, arguments, key)

    def ask(self, operation: str, arguments: dict[str, Any]) -> bool:
        """See `Outside`."""
        return self._person.ask(operation, _whole(operation, arguments))


@contextmanager
def in_memory(design: Design) -> Iterator[Crasher[Any]]:
    """Exceptions in process, the saved state a string."""

    def work(world: MemoryOutside) -> None:
        run_design(design, world)

    def fresh() -> MemoryOutside:
        return MemoryOutside(TwinTransport("tracker", dialect_of(design)))

    with CopyCrasher(fresh=fresh, start=work, resume=work) as crasher:
        yield crasher


@contextmanager
def with_files(design: Design) -> Iterator[Crasher[Any]]:
    """Exceptions in process, the saved state a real file."""

    def work(mount: Mount) -> None:
        twin = mount.twins["tracker"]
        outside = FileOutside(str(mount.folder), Tracker(twin), Person(twin.person))
        run_design(design, outside)

    with scratch_folder(memory_folder()) as folder:
        mount = Mount.make(folder, {"tracker": dialect_of(design)})
        with FolderCrasher(mount, start=work, resume=work) as crasher:
            yield crasher


@contextmanager
def forked(design: Design) -> Iterator[Crasher[Any]]:
    """Real processes that are killed, a real file, a real tracker with its ledger."""

    def work(folder: str) -> None:
        run_design(design, FileOutside(folder, connect("tracker"), person_of("tracker")))

    def make(_sockets: Path) -> ForkExecutor:
        return ForkExecutor(work, work)

    with real_crasher(make, dialects={"tracker": dialect_of(design)}) as crasher:
        yield crasher


MODES: Final[dict[str, Callable[[Design], Any]]] = {
    "raise": in_memory,
    "files": with_files,
    "fork": forked,
}


def _send(tracker: Tracker, operation: str, arguments: dict[str, Any], key: str | None) -> Any:
    if operation == "search":
        return tracker.search(**arguments)
    if operation == "file":
        return tracker.file(**arguments, key=key)
    return tracker.comment(**arguments, key=key)


def _whole(operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments as the tracker keeps them."""
    return {**arguments, "body": ""} if operation == "file" else arguments


_encode = json.JSONEncoder(separators=(",", ":")).encode
