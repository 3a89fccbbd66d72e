"""Processes that we started, and what becomes of them: ended, stopped, continued.

SIGCHLD tells, so nothing polls; a child is reaped by nobody else.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence

__all__ = ["Child", "Children", "boot_s", "how_it_ended"]


def boot_s() -> float:
    """Seconds that go on while the machine sleeps, where the system has such a clock."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)


class Child:
    """A process, the first of a group of its own."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.pid = process.pid
        self.started_s = boot_s()
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        """Its exit status; below zero the signal that ended it."""
        self.stopped = False
        """Whether a signal has stopped it, so that it runs nothing."""
        self.changed: Callable[[], None] = lambda: None
        """Called when `stopped` has changed."""

    @property
    def alive(self) -> bool:
        """Whether it was not seen to end."""
        return not self.ended.done()

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, unless it has ended."""
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL it and what it started in its group."""
        if self.alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def look(self) -> None:
        """Take note of what has happened to it."""
        while self.alive:
            try:
                self._sweep_group()
                pid, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
            except ChildProcessError:
                self._end(0)
                return
            if pid == 0:
                return
            if os.WIFSTOPPED(status) or os.WIFCONTINUED(status):
                self.stopped = os.WIFSTOPPED(status)
                self.changed()
            else:
                self._end(os.waitstatus_to_exitcode(status))

    def _sweep_group(self) -> None:
        """If it has ended: what it left behind in its group goes with it.

        Before it is reaped, while its number cannot be another's.
        """
        if sys.platform == "linux" and os.waitid(
            os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT
        ):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def _end(self, status: int) -> None:
        self._process.returncode = status
        self.ended.set_result(status)


class Children:
    """The children of this process; one such object a process, since it has SIGCHLD."""

    def __init__(self) -> None:
        self._children: set[Child] = set()
        self._loop = asyncio.get_running_loop()
        self._loop.add_signal_handler(signal.SIGCHLD, self._look)

    def start(
        self,
        command: Sequence[str],
        *,
        pass_fds: Sequence[int] = (),
        env: Mapping[str, str] | None = None,
    ) -> Child:
        """Start it in a group of its own, with our own output; raises OSError."""
        process = subprocess.Popen(
            list(command), stdin=subprocess.DEVNULL, pass_fds=pass_fds, env=env, process_group=0
        )
        child = Child(process)
        self._children.add(child)
        child.ended.add_done_callback(lambda _: self._children.discard(child))
        return child

    def _look(self) -> None:
        for child in list(self._children):
            child.look()

    def close(self) -> None:
        """Kill what is left, reap it, and let go of SIGCHLD."""
        for child in list(self._children):
            child.kill()
            if child.alive:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(child.pid, 0)
                child._end(-signal.SIGKILL)  # noqa: SLF001  of this module
        self._loop.remove_signal_handler(signal.SIGCHLD)


def how_it_ended(status: int) -> str:
    """An exit status in words."""
    if status >= 0:
        return f"exited with {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"
