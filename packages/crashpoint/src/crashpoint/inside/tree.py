"""A process and everything below it: found in /proc, stopped, continued and killed as one.

Descendants are found by walking while they stand still, so a tree that forks while it is being
looked at is still taken whole. Standard library only: the keeper inside and the controller outside
share it.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress

__all__ = ["descendants", "stop_all"]


def descendants(root: int) -> list[int]:
    """Process ids below `root` (not itself), parents before children; zombies are left out."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):
                state, parent = _stat(name).rpartition(b")")[2].split(maxsplit=2)[:2]
                if state not in (b"Z", b"X"):
                    children.setdefault(int(parent), []).append(int(name))
    found, at = [root], 0
    while at < len(found):
        found += children.get(found[at], ())
        at += 1
    return found[1:]


def _stat(pid: str) -> bytes:
    fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    try:
        return os.read(fd, 1024)
    finally:
        os.close(fd)


def stop_all(root: int) -> list[int]:
    """SIGSTOP everything below `root` until a look finds nothing new; returns the process ids."""
    stopped: dict[int, bool] = {}
    while True:
        fresh = [pid for pid in descendants(root) if pid not in stopped]
        if not fresh:
            return list(stopped)
        for pid in fresh:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
            stopped[pid] = True
