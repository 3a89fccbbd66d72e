"""Clears up after a harness that may die at any moment: the one process with nothing else to do.

It reads `pid start` lines from its input. When the input closes, because the harness is done or
dead, it waits for those processes to end by themselves, kills the ones that do not, and removes the
folder. Run by path with `-I -S`: standard library only.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import time
from contextlib import suppress

GRACE_S = 2.0


def main() -> int:
    """argv: the folder to remove in the end."""
    folder = sys.argv[1]
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)
    known = [tuple(map(int, line.split())) for line in sys.stdin]
    deadline = time.monotonic() + GRACE_S
    for pid, start in known:
        with suppress(OSError):
            fd = os.pidfd_open(pid)
            if start_of(pid) != start:
                continue
            poller = select.poll()
            poller.register(fd, select.POLLIN)
            if not poller.poll(max(0.0, deadline - time.monotonic()) * 1000):
                signal.pidfd_send_signal(fd, signal.SIGKILL)
                poller.poll(1000)
    shutil.rmtree(folder, ignore_errors=True)
    return 0


def start_of(pid: int) -> int:
    """Clock ticks after boot at which the process began; raises OSError when it is gone."""
    with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123  pathlib is slow to start
        return int(file.read().rpartition(b")")[2].split()[19])


if __name__ == "__main__":
    sys.exit(main())
