"""What a program registers with `atexit` runs at the end of its run, and never in a dead one.

Otherwise it would run when this process ends: once for each scenario, and in another folder.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from crashpoint.inside.points import Crash, current
from crashpoint.sweep.image import is_own

__all__ = ["Exits", "exits"]


@contextmanager
def exits() -> Iterator[Exits]:
    """Take what is registered meanwhile."""
    taken = Exits()
    register, unregister = atexit.register, atexit.unregister
    atexit.register, atexit.unregister = taken.register, taken.unregister
    try:
        yield taken
    finally:
        atexit.register, atexit.unregister = register, unregister


class Exits:
    """Functions that wait for the end of a run."""

    def __init__(self) -> None:
        self._register = atexit.register
        self._unregister = atexit.unregister
        self._waiting: list[tuple[Callable[..., Any], Any, Any]] = []

    def register(self, function: Callable[..., Any], /, *args: Any, **options: Any) -> Any:
        """As in atexit; what is not the program's own is left to it."""
        if current() is None or not is_own(function):
            return self._register(function, *args, **options)
        self._waiting.append((function, args, options))
        return function

    def unregister(self, function: Callable[..., Any]) -> None:
        """As in atexit."""
        self._waiting = [waiting for waiting in self._waiting if waiting[0] != function]
        self._unregister(function)

    @contextmanager
    def run_at_the_end(self) -> Iterator[None]:
        """Around a run."""
        try:
            yield
        except Crash:
            raise
        except BaseException:
            self._run()
            raise
        else:
            self._run()
        finally:
            self._waiting.clear()

    def _run(self) -> None:
        while self._waiting:
            function, args, options = self._waiting.pop()
            function(*args, **options)
