"""A disk that fails when told to, and that knows what a power cut would leave of it.

It is a layer below SQLite; what is written goes to the real files.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import apsw

__all__ = ["Disk"]

_names = itertools.count()


class Disk(apsw.VFS):
    """`SqliteStore(path, vfs=disk.name)` uses it; `unregister` it at the end."""

    def __init__(self) -> None:
        self.name = f"faulty-{next(_names)}"
        super().__init__(self.name, "")
        self._left: int | None = None
        self._error: Callable[[str], Exception] = apsw.IOError
        self._once = False
        self.fired = 0
        """How many operations failed since `arm`."""
        self.syncs = 0
        self.temporary = 0
        """Files without a name that were opened."""
        self.synced: dict[str, bytearray] = {}
        """File -> what the disk itself holds of it."""
        self.written: dict[str, list[tuple[int, bytes]]] = {}
        """File -> what was written since its last sync: offset and bytes."""

    def arm(self, after: int, error: Callable[[str], Exception], *, once: bool) -> None:
        """Let `after` operations that change something succeed, then fail the next (`once`) or all.

        A write that fails has written half of what it should. What was written before a sync that
        fails can still be read, and no later sync brings it to the disk: so Linux does it.
        """
        self._left, self._error, self._once, self.fired = after, error, once, 0

    def disarm(self) -> None:
        """Work again."""
        self._left = None

    def fails(self) -> bool:
        """Whether the operation that is about to be done fails."""
        if self._left is None:
            return False
        if self._left > 0:
            self._left -= 1
            return False
        self.fired += 1
        if self._once:
            self._left = None
        return True

    def error(self) -> Exception:
        """What a failing operation raises."""
        return self._error("the disk was told to fail")

    def power_cut(self, folder: Path) -> None:
        """Make the files as they would be found after a power cut, by name, in another folder."""
        for name, content in self.synced.items():
            (folder / Path(name).name).write_bytes(content)

    def sync(self, name: str) -> None:
        """What was written to the file is on the disk."""
        content = self.synced.setdefault(name, bytearray())
        for offset, data in self.written.pop(name, ()):
            content.extend(bytes(max(0, offset - len(content))))
            content[offset : offset + len(data)] = data

    def xOpen(self, name, flags):  # noqa: N802  apsw's name
        return _File(self, name, flags)

    def xDelete(self, filename, syncdir):  # noqa: N802
        super().xDelete(filename, syncdir)
        self.synced.pop(filename, None)
        self.written.pop(filename, None)


class _File(apsw.VFSFile):
    def __init__(self, disk: Disk, name, flags) -> None:
        super().__init__("", name, flags)
        self._disk = disk
        named = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._name = named or ""
        disk.temporary += not named
        if named and named not in disk.synced:
            disk.synced[named] = bytearray(self.xRead(self.xFileSize(), 0))

    def xWrite(self, data, offset):  # noqa: N802
        fails = self._disk.fails()
        part = bytes(data[: len(data) // 2] if fails else data)
        super().xWrite(part, offset)
        self._disk.written.setdefault(self._name, []).append((offset, part))
        if fails:
            raise self._disk.error()

    def xTruncate(self, newsize):  # noqa: N802
        if self._disk.fails():
            raise self._disk.error()
        super().xTruncate(newsize)
        self._disk.sync(self._name)
        del self._disk.synced[self._name][newsize:]

    def xSync(self, flags):  # noqa: N802
        if self._disk.fails():
            self._disk.written.pop(self._name, None)
            raise self._disk.error()
        super().xSync(flags)
        self._disk.syncs += 1
        self._disk.sync(self._name)
