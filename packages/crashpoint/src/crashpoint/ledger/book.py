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

__all__ = ["FILE_NAME", "Book", "BookFault"]

FILE_NAME: Final = "ledger.jsonl"


class BookFault(RuntimeError):
    """The file cannot be written or read back; nothing after the last synced record is promised."""


class Book:
    """One open ledger file. `recovered` holds the records found in it, oldest first."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE_NAME
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._fd = os.open(
                self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
            )
            self.recovered = self._recover()
            self._sync_folder(folder)
        except OSError as error:
            raise BookFault(f"cannot open the ledger {self.path}: {error.strerror}") from error

    def append(self, lines: Sequence[bytes]) -> None:
        """Write the lines as one block and sync it; raises BookFault when either fails."""
        try:
            self._write(b"".join(lines))
            self._sync()
        except OSError as error:
            raise BookFault(
                f"cannot append to the ledger {self.path}: {error.strerror}; "
                "free space or choose another folder with TMPDIR, then run again"
            ) from error

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def _write(self, block: bytes) -> None:
        rest = memoryview(block)
        while rest:
            rest = rest[os.write(self._fd, rest) :]

    def _sync(self) -> None:
        os.fdatasync(self._fd)

    def _recover(self) -> list[Record]:
        *lines, torn = self.path.read_bytes().split(b"\n")
        records = []
        for number, line in enumerate(lines, start=1):
            try:
                records.append(parse(line))
            except NotCanonical as error:
                raise BookFault(f"{self.path} line {number}: {error}") from None
        if torn:
            os.ftruncate(self._fd, sum(len(line) + 1 for line in lines))
        # What is believed from now on must not vanish later: the dead daemon may not have synced it.
        os.fsync(self._fd)
        return records

    @staticmethod
    def _sync_folder(folder: Path) -> None:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
