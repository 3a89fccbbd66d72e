"""Finds and ends the processes that a job in this process has started, daemons included."""

from __future__ import annotations

import ctypes
import os
import signal
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from crashpoint.inside import tree

__all__ = ["Strays"]

PR_SET_CHILD_SUBREAPER: Final = 36
PR_GET_CHILD_SUBREAPER: Final = 37


class Strays:
    """While it is entered, orphans of this process come back to it; `end` kills what is new below.

    What ran below this process before is spared.
    """

    def __enter__(self) -> Self:
        """Become the one to whom orphans come."""
        self._libc = ctypes.CDLL(None)
        before = ctypes.c_int()
        self._libc.prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(before), 0, 0, 0)
        self._before = before.value
        self._libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._spared = frozenset(tree.descendants(os.getpid()))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End what is left and be as before."""
        self.end()
        self._libc.prctl(PR_SET_CHILD_SUBREAPER, self._before, 0, 0, 0)

    def end(self) -> None:
        """Kill and reap what was started since; costs one call when there is nothing at all."""
        try:
            # Only a look: the end of a process that somebody here waits for is not ours to take.
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        # Once is not enough: what hangs below a process that is just ending is not found below it.
        while children := self._children():
            killed = tree.stop_all(os.getpid(), spare=self._spared)
            for pid in killed:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for pid in children:
                with suppress(ChildProcessError):
                    os.waitpid(pid, 0 if pid in killed else os.WNOHANG)

    def _children(self) -> set[int]:
        """Children of this process that are not spared, ended ones included."""
        tasks = Path("/proc/self/task").iterdir()
        lists = [(task / "children").read_bytes().split() for task in tasks]
        return {int(pid) for pids in lists for pid in pids} - self._spared
