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
ATTEMPTS = 20


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
    clear(folder, deadline)
    return 0


def clear(folder: str, deadline: float) -> None:
    """Remove the folder, and before it whatever still works in it: known or not, stopped or not.

    A process may have been started in the last moment before the harness was killed, and may be
    making files while they are being removed.
    """
    for _ in range(ATTEMPTS):
        for pid in working_in(folder):
            with suppress(OSError):
                fd = os.pidfd_open(pid)
                poller = select.poll()
                poller.register(fd, select.POLLIN)
                if not poller.poll(max(0.0, deadline - time.monotonic()) * 1000):
                    signal.pidfd_send_signal(fd, signal.SIGKILL)
                    poller.poll(1000)
                os.close(fd)
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.exists(folder) and not working_in(folder):
            return


def working_in(folder: str) -> list[int]:
    """Processes that name the folder in their command line or stand in it; not this one."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            with suppress(OSError):
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    told = os.fsencode(folder) in file.read()
                if told or os.readlink(f"/proc/{name}/cwd").startswith(folder):
                    found.append(int(name))
    return found


def start_of(pid: int) -> int:
    """Clock ticks after boot at which the process began; raises OSError when it is gone."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[19])


if __name__ == "__main__":
    sys.exit(main())
