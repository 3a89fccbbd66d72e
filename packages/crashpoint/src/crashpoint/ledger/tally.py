"""How much of the ledger's file was acknowledged, in memory that outlives the daemon.

The controller makes it; the daemon updates it after each sync, before it replies. Whoever kills the
daemon and cuts the file at its tail leaves a chain that verifies, but not this.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from crashpoint.ledger.book import lines_in

__all__ = ["Tally"]

FORM: Final = struct.Struct("=Q32s")
"""Bytes acknowledged and their SHA-256."""


class Tally:
    """A view of the shared memory behind a descriptor made by `shared`."""

    def __init__(self, fd: int) -> None:
        self._memory = mmap.mmap(fd, FORM.size)
        self._size = 0
        self._hash = hashlib.sha256()

    @staticmethod
    def shared() -> int:
        """Descriptor of fresh shared memory; it has no name in any folder."""
        fd = os.memfd_create("crashpoint-tally")
        os.write(fd, FORM.pack(0, hashlib.sha256().digest()))
        return fd

    def add(self, lines: Sequence[bytes]) -> None:
        """Count lines as acknowledged from now on."""
        block = b"".join(lines)
        self._size += len(block)
        self._hash.update(block)
        FORM.pack_into(self._memory, 0, self._size, self._hash.digest())

    def fault_in(self, path: Path) -> str | None:
        """Why a file lacks what was acknowledged, or None; raises OSError."""
        size, known = FORM.unpack_from(self._memory)
        written = b"".join(lines_in(path))
        if len(written) < size:
            return f"{path} has {len(written)} bytes of records, {size} were acknowledged"
        if hashlib.sha256(written[:size]).digest() != known:
            return f"{path} does not hold what was acknowledged"
        return None
