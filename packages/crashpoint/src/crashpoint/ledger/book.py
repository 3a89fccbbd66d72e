"""The ledger's file: an append-only list of lines, each durable before anyone is told of it.

`append` returns after the data is synced. A line cut short by a crash was never acknowledged and is
dropped when the file is opened again.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from crashpoint.canonical import NotCanonical, parse
from crashpoint.ledger.chain import Record

__all__ = ["FILE_NAME", "Book", "BookFault", "lines_in"]

FILE_NAME: Final = "ledger.jsonl"
ROOM: Final = 1 << 18
"""Bytes of zeros written ahead. A sync that need not make the file longer is a third quicker."""


class BookFault(RuntimeError):
    """The file cannot be written or read back; nothing after the last synced record is promised."""


class Book:
    """One open ledger file.

    `found` holds the whole lines that were in it, oldest first, `recovered` their records.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE_NAME
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self.found = lines_in(self.path)
            self._end = self._room_end = sum(map(len, self.found))
            os.ftruncate(self._fd, self._end)
            # What is believed from now on must not vanish: the dead daemon may not have synced it.
            os.fsync(self._fd)
            _sync_folder(folder)
        except OSError as error:
            raise BookFault(f"cannot open the ledger {self.path}: {error.strerror}") from error
        self.recovered = [
            self._record(number, line) for number, line in enumerate(self.found, start=1)
        ]

    def append(self, lines: Sequence[bytes]) -> None:
        """Write the lines as one block and sync it; raises BookFault when either fails."""
        block = b"".join(lines)
        try:
            if self._end + len(block) > self._room_end:
                self._make_room(len(block) + ROOM)
            self._write(block)
            self._sync()
        except OSError as error:
            raise BookFault(
                f"cannot append to the ledger {self.path}: {error.strerror}; "
                "free space or choose another folder with TMPDIR, then run again"
            ) from error

    def close(self) -> None:
        """Cut off the room that was not used and close the file."""
        os.ftruncate(self._fd, self._end)
        os.close(self._fd)

    def _make_room(self, size: int) -> None:
        _write_at(self._fd, bytes(size), self._end)
        os.fsync(self._fd)
        self._room_end = self._end + size

    def _write(self, block: bytes) -> None:
        _write_at(self._fd, block, self._end)
        self._end += len(block)

    def _sync(self) -> None:
        os.fdatasync(self._fd)

    def _record(self, number: int, line: bytes) -> Record:
        try:
            record: Record = parse(line)
        except NotCanonical as error:
            raise BookFault(f"{self.path} line {number}: {error}") from None
        return record


def _write_at(fd: int, block: bytes, offset: int) -> None:
    rest = memoryview(block)
    while rest:
        written = os.pwrite(fd, rest, offset)
        offset += written
        rest = rest[written:]


def lines_in(path: Path) -> list[bytes]:
    """The whole lines of a ledger file, ends included, without the zeros after them."""
    written, _, _ = path.read_bytes().partition(b"\0")
    return [line + b"\n" for line in written.split(b"\n")[:-1]]


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
