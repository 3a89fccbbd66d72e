"""One run per evidence file at a time: a name in the kernel that vanishes with its holder."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["NameTaken", "name_lock"]


class NameTaken(RuntimeError):
    """Another run is writing the same file."""


@contextmanager
def name_lock(target: Path) -> Iterator[None]:
    """Hold the right to write `target`; raises NameTaken when a running process holds it.

    An abstract Unix socket is the lock: it needs no file, so a killed holder leaves nothing behind.
    """
    name = hashlib.sha256(os.fsencode(os.path.realpath(target))).hexdigest()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as holder:
        try:
            holder.bind(f"\0crashpoint-{name}")
        except OSError:
            raise NameTaken(
                f"another run is writing {target}; wait for it or choose another --name"
            ) from None
        yield
