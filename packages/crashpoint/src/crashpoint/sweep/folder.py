"""In-process worlds of real programs: a state folder, in-memory receivers, counters.

One world is mounted at a time: its files lie in one folder, its receivers' states are in the twins
that the program's clients talk to. A snapshot holds both by value.
"""

from __future__ import annotations

import os
import shutil
import time
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from crashpoint.receivers.dialect import Dialect
from crashpoint.receivers.person import TRUTHFUL, ScriptedPerson
from crashpoint.receivers.receiver import ReceiverFault
from crashpoint.receivers.twin import TwinTransport
from crashpoint.sweep.effects import Name, name_by_content, seen_in
from crashpoint.sweep.exits import exits
from crashpoint.sweep.hooks import watching
from crashpoint.sweep.image import Image
from crashpoint.sweep.inprocess import RaiseCrasher
from crashpoint.sweep.words import Process, Seen, kind_of

__all__ = ["FolderCrasher", "Mount", "Name", "files_below", "name_by_content", "seen_in"]


@dataclass
class Mount:
    """The world that is there now: files in `folder`, receivers in `twins`, counted model calls."""

    folder: Path
    twins: Mapping[str, TwinTransport]
    model_calls: int = 0
    name: Name = name_by_content

    @classmethod
    def make(
        cls,
        folder: Path,
        dialects: Mapping[str, Dialect],
        *,
        person: ScriptedPerson = TRUTHFUL,
        name: Name = name_by_content,
    ) -> Mount:
        """A mount over an existing, empty folder with a twin for each receiver."""
        twins = {
            receiver: TwinTransport(receiver, dialect, now_s=time.monotonic, person=person)
            for receiver, dialect in dialects.items()
        }
        return cls(folder, twins, name=name)


@dataclass(frozen=True)
class _Snapshot:
    files: Mapping[str, bytes]
    receivers: tuple[tuple[str, Any, Any, bool], ...]
    model_calls: int


class FolderCrasher(RaiseCrasher[Mount]):
    """Runs functions of a mount; the working directory is the mount's folder meanwhile.

    What the program of `memory_of` remembers of a run is forgotten after it.
    """

    def __init__(
        self,
        mount: Mount,
        *,
        start: Callable[[Mount], Any],
        resume: Callable[[Mount], Any],
        limit_s: float = 10.0,
        memory_of: Sequence[Callable[..., Any]] = (),
    ) -> None:
        super().__init__(start=start, resume=resume, limit_s=limit_s)
        self._mount = mount
        self._image = Image(memory_of) if memory_of else None
        empty = Mount.make(mount.folder, {n: t.dialect for n, t in mount.twins.items()})
        self._nothing = _Snapshot({}, _states(empty), 0)

    def __enter__(self) -> Self:
        """Work in the folder and watch it, from now on."""
        self._stack.callback(os.chdir, Path.cwd())
        os.chdir(self._mount.folder)
        self._watch = self._stack.enter_context(watching(str(self._mount.folder)))
        self._exits = self._stack.enter_context(exits())
        # What a process leaves open its end closes, so nobody is to be warned of it.
        self._stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore", ResourceWarning)
        return super().__enter__()

    def run(self, world: Mount, *, resume: bool, at: int, fail: bool = False) -> Process:
        """See `Crasher.run`."""
        if self._image is not None:
            self._image.keep()
        process = super().run(world, resume=resume, at=at, fail=fail)
        self.let_go()
        if self._image is not None:
            self._image.put_back()
            os.chdir(world.folder)
        world.model_calls += sum(kind_of(name) == "reply" for name in process.passed)
        return process

    def around(self) -> AbstractContextManager[None]:
        """See `RaiseCrasher`."""
        return self._exits.run_at_the_end()

    def let_go(self) -> None:
        """As the kernel does when a process ends."""
        self._watch.let_go()

    def fresh(self) -> Mount:
        """Nothing has happened."""
        return self.restore(self._nothing)

    def snapshot(self, world: Mount) -> Any:
        """Files and states by value."""
        return _Snapshot(files_below(world.folder), _states(world), world.model_calls)

    def restore(self, snapshot: Any) -> Mount:
        """Put them back."""
        mount = self._mount
        _put_back(mount.folder, snapshot.files)
        for name, state, late, is_down in snapshot.receivers:
            twin = mount.twins[name]
            twin.state, twin.late, twin.is_down = state, late, is_down
            twin.calm()
        mount.model_calls = snapshot.model_calls
        return mount

    def key(self, world: Mount) -> Hashable:
        """Files, what each receiver recorded (without the time), counters."""
        receivers = [
            (name, repr(late), *[repr({**r, "at_s": None}) for r in state.records])
            for name, state, late, _ in _states(world)
        ]
        return tuple(sorted(files_below(world.folder).items())), (*receivers,), world.model_calls

    def seen(self, world: Mount) -> Seen:
        """What crossed in any receiver."""
        crossings: dict[str, tuple[str, ...]] = {}
        swallowed: tuple[str, ...] = ()
        for twin in world.twins.values():
            crossed, lost = seen_in(twin.state.records, world.name)
            crossings |= crossed
            swallowed += lost
        ops = Counter(r["op"] for twin in world.twins.values() for r in twin.state.crossings())
        asks = sum(twin.state.asked for twin in world.twins.values())
        return Seen(crossings, asks, world.model_calls, swallowed, ops)

    def drop(self, world: Mount) -> None:
        """The next one takes its place."""

    def records(self, world: Mount) -> list[dict[str, Any]]:
        """Every receiver's records, for people."""
        return [record for twin in world.twins.values() for record in twin.state.records]

    def requests(self, world: Mount) -> list[tuple[str, str]]:
        """See `FaultyCrasher`; receivers one after the other."""
        return [
            (name, record["op"])
            for name, twin in world.twins.items()
            for record in twin.state.crossings()
        ]

    def arm(self, world: Mount, receiver: str, fault: ReceiverFault, nth: int) -> None:
        """See `FaultyCrasher`."""
        world.twins[receiver].inject(fault, nth)

    def heal(self, world: Mount) -> None:
        """See `FaultyCrasher`."""
        for twin in world.twins.values():
            twin.calm()
            if twin.is_down:
                twin.restart()

    def settle(self, world: Mount) -> None:
        """See `FaultyCrasher`."""
        for twin in world.twins.values():
            twin.settle()


def _states(mount: Mount) -> tuple[tuple[str, Any, Any, bool], ...]:
    return tuple((n, twin.state, twin.late, twin.is_down) for n, twin in mount.twins.items())


def files_below(folder: Path) -> dict[str, bytes]:
    """Every file below, by relative path; a folder ends in a slash, a symbolic link in an `@`."""
    found: dict[str, bytes] = {}
    waiting = [""]
    while waiting:
        within = waiting.pop()
        with os.scandir(f"{folder}/{within}") as entries:
            for entry in entries:
                path = within + entry.name
                if entry.is_dir(follow_symlinks=False):
                    found[path + "/"] = b""
                    waiting.append(path + "/")
                elif entry.is_file(follow_symlinks=False):
                    found[path] = _read(entry.path)
                elif entry.is_symlink():
                    found[path + "@"] = os.fsencode(Path(entry.path).readlink())
    return found


def _put_back(folder: Path, files: Mapping[str, bytes]) -> None:
    with os.scandir(folder) as entries:
        for entry in entries:
            # Nothing is written over: whatever still has a file open keeps what it has.
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                _unlink(entry.path)
    for path, content in files.items() if len(files) < 2 else sorted(files.items()):
        if path.endswith("/"):
            (folder / path).mkdir()
        elif path.endswith("@"):
            (folder / path[:-1]).symlink_to(os.fsdecode(content))
        else:
            _write(f"{folder}/{path}", content)


# Bound here, because they are watched, and called hundreds of thousands of times.
_open, _unlink, _write_to = os.open, os.unlink, os.write


def _read(path: str) -> bytes:
    fd = _open(path, os.O_RDONLY)
    try:
        return os.read(fd, os.fstat(fd).st_size)
    finally:
        os.close(fd)


def _write(path: str, content: bytes) -> None:
    fd = _open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[_write_to(fd, rest) :]
    finally:
        os.close(fd)
