"""When something in the store is due, without a timer for each: one, for the earliest."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from outlive.server.numbers import Numbers

__all__ = ["Timer"]

POLL_S: Final = 1.0
"""How soon a jump of the wall clock is noticed."""


class Timer:
    """`fire` meets what is due by an instant and says how much that was; `next_due` looks ahead."""

    def __init__(
        self,
        numbers: Numbers,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        *,
        fire: Callable[[int], Awaitable[int]],
        next_due: Callable[[], Awaitable[int | None]],
    ) -> None:
        self._numbers = numbers
        self._spawn = spawn
        self._fire = fire
        self._next_due = next_due
        self._handle: asyncio.TimerHandle | None = None
        self._due_ms: int | None = None
        self._firing = False
        self._stopped = False

    def set(self, due_ms: int | None) -> None:
        """Something is filed under that instant."""
        if due_ms is not None and (self._due_ms is None or due_ms < self._due_ms):
            self._due_ms = due_ms
            self.look()

    def look(self) -> None:
        """Do now what is due, and set the timer for the rest."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        if self._due_ms is not None and not self._stopped:
            left_s = (self._due_ms - self._numbers.peek_ms()) / 1000
            self._handle = asyncio.get_running_loop().call_later(
                min(max(left_s, 0), POLL_S), self._ring
            )

    def stop(self) -> None:
        """Do nothing any more."""
        self._stopped = True
        if self._handle is not None:
            self._handle.cancel()

    def _ring(self) -> None:
        self._handle = None
        if self._due_ms is None or self._due_ms > self._numbers.peek_ms():
            self.look()
        elif not self._firing:
            self._firing = True
            self._spawn(self._all())

    async def _all(self) -> None:
        try:
            while await self._fire(self._numbers.now_ms()):
                pass
            self._due_ms = None
            due_ms = await self._next_due()
        finally:
            self._firing = False
        self.set(due_ms)
        self.look()
