"""A job in this process leaves nothing in it: what it prints or logs, processes, signal handlers.

A thousand scenarios would otherwise print everything a thousand times, into a terminal or a test's
captured output. Only the end of what one process prints is kept; that of its children is not.
"""

from __future__ import annotations

import io
import logging
import signal
import threading
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, Final, Self

from crashpoint.sweep.folder import FolderCrasher, Mount
from crashpoint.sweep.strays import Strays
from crashpoint.sweep.words import Process

__all__ = ["QuietCrasher"]

KEPT_MAX: Final = 1 << 16
"""Characters of one process that are kept."""
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
"""What a job may handle or ignore; what it set would hold for the caller and all it starts."""

Handlers = list[tuple[signal.Signals, Any]]


class QuietCrasher(FolderCrasher):
    """A FolderCrasher that looks after what its processes print and start."""

    def __init__(self, mount: Mount, **options: Any) -> None:
        super().__init__(mount, **options)
        self._end = _End()
        self._log = logging.StreamHandler(self._end)
        self._strays = Strays()

    def __enter__(self) -> Self:
        """See FolderCrasher; from now on, look after what the job starts."""
        self._stack.enter_context(self._strays)
        return super().__enter__()

    @property
    def printed(self) -> str:
        """What the process that ran last has printed and logged, or the end of that."""
        return self._end.text()

    def run(self, world: Mount, *, resume: bool, at: int, fail: bool = False) -> Process:
        """See `Crasher.run`."""
        self._end.clear()
        before = [(number, signal.getsignal(number)) for number in SIGNALS]
        root = logging.getLogger()
        handlers, root.handlers = root.handlers, [self._log]
        try:
            with redirect_stdout(self._end), redirect_stderr(self._end):
                return super().run(world, resume=resume, at=at, fail=fail)
        finally:
            root.handlers = handlers
            _set_again(before)
            self._strays.end()


def _set_again(before: Handlers) -> None:
    if threading.current_thread() is threading.main_thread():  # no other may, the job's included
        for number, handler in before:
            if signal.getsignal(number) is not handler:
                signal.signal(number, handler)


class _End(io.TextIOBase):
    """A text stream of which only the end is kept."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        self._parts.append(text[-KEPT_MAX:])
        self._size += len(self._parts[-1])
        if self._size > 4 * KEPT_MAX:
            self._parts = [self.text()]
            self._size = len(self._parts[0])
        return len(text)

    def clear(self) -> None:
        self._parts, self._size = [], 0

    def text(self) -> str:
        return "".join(self._parts)[-KEPT_MAX:]
