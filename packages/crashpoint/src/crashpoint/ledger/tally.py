"""How much of the ledger's file was acknowledged, in memory that outlives the daemon.

The controller makes it; a daemon updates it after each sync, before it replies, and holds the file
that it finds against it. Whoever kills a daemon and cuts the file at its tail leaves chains that
verify, but not this.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import struct
from collections.abc import Sequence
from typing import Final

from crashpoint.ledger.book import BookFault

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

    def resume(self, lines: Sequence[bytes]) -> None:
        """Go on from the lines that a file holds.

        Raises BookFault when they do not begin with all that was acknowledged.
        """
        size, digest = FORM.unpack_from(self._memory)
        written = b"".join(lines)
        if len(written) < size or hashlib.sha256(written[:size]).digest() != digest:
            raise BookFault(
                f"the file was changed while no daemon held it: of {size} bytes acknowledged not "
                f"all are in the {len(written)} that are there; its open trials cannot be certified"
            )
        self.add(lines)

    def add(self, lines: Sequence[bytes]) -> None:
        """Count lines as acknowledged from now on."""
        block = b"".join(lines)
        self._size += len(block)
        self._hash.update(block)
        FORM.pack_into(self._memory, 0, self._size, self._hash.digest())
