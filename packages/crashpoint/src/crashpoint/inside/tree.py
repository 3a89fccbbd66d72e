"""A process and everything below it: found in /proc, stopped, continued and killed as one.

Descendants are found by walking while they stand still, so a tree that forks while it is being
looked at is still taken whole. Standard library only: the keeper inside and the controller outside
share it.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Container
from contextlib import suppress

__all__ = ["descendants", "kill_all", "stop_all"]

STAND_S = 2.0
"""Longest wait for a tree to stand, seconds: a parent in vfork cannot stop while its child does."""


def descendants(root: int, *, spare: Container[int] = ()) -> list[int]:
    """Process ids below `root` (not itself), parents before children; dead ones are left out.

    So are those in `spare`, and what is below them.
    """
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):
                stat = _stat(name)
                # The first thread's state: a process lives on in others when that one has ended.
                if stat[0] not in (b"Z", b"X") or int(stat[17]) > 1:
                    children.setdefault(int(stat[1]), []).append(int(name))
    found, at = [root], 0
    while at < len(found):
        found += [pid for pid in children.get(found[at], ()) if pid not in spare]
        at += 1
    return found[1:]


def stop_all(root: int, *, spare: Container[int] = ()) -> list[int]:
    """SIGSTOP everything below `root`; returns the process ids once all of it stands still.

    What cannot be stopped within STAND_S is left running and is among the ids all the same.
    """
    stopped: dict[int, bool] = {}
    deadline = time.monotonic() + STAND_S
    while True:
        # Asked before the look: a signal that was sent does not stop a fork that has begun, so the
        # absence of new processes says something only when none was still running.
        running = [pid for pid in stopped if _runs(pid)]
        fresh = [pid for pid in descendants(root, spare=spare) if pid not in stopped]
        if not (fresh or running) or time.monotonic() > deadline:
            return list(stopped)
        for pid in fresh + running:
            _send(pid, signal.SIGSTOP)
            stopped[pid] = True
        os.sched_yield()


def kill_all(root: int, *, spare: Container[int] = ()) -> list[int]:
    """SIGKILL everything below `root`, stopped first so that none escapes; returns the ids."""
    pids = stop_all(root, spare=spare)
    for pid in pids:
        _send(pid, signal.SIGKILL)
    return pids


def _runs(pid: int) -> bool:
    """Whether a thread of the process is neither stopped nor dead; it may still be in a fork."""
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
        return any(_stat(f"{pid}/task/{task}")[0] not in b"TtZX" for task in tasks)
    except OSError:
        return False


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _stat(name: str) -> list[bytes]:
    """The fields of a stat file from the state on."""
    fd = os.open(f"/proc/{name}/stat", os.O_RDONLY)
    try:
        return os.read(fd, 1024).rpartition(b")")[2].split()
    finally:
        os.close(fd)
