"""What the engine needs from the world outside it, so that a simulation can be that world."""

from __future__ import annotations

import time
from typing import Protocol

from outlive.wire.native_v1 import ToRunner

__all__ = ["Clock", "Link", "SystemClock", "TestClock"]


class Clock(Protocol):
    """`wall_ms` may jump, `steady_s` may not."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970."""
        ...

    def steady_s(self) -> float:
        """Seconds that go on while the machine sleeps, and never back."""
        ...


class SystemClock:
    """The machine's."""

    def wall_ms(self) -> int:
        """See Clock."""
        return time.time_ns() // 1_000_000

    def steady_s(self) -> float:
        """See Clock."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)


class TestClock(SystemClock):
    """The machine's, and a jump ahead: for tests of what takes days."""

    __test__ = False

    def __init__(self) -> None:
        self._ahead_ms = 0

    def advance(self, by_ms: int) -> None:
        """Jump."""
        self._ahead_ms += by_ms

    def wall_ms(self) -> int:
        """See Clock."""
        return super().wall_ms() + self._ahead_ms


class Link(Protocol):
    """A connection to a runner, as the engine sees it."""

    def send(self, message: ToRunner) -> None:
        """Send it with all else that is sent in this turn of the loop, in order."""
        ...

    async def room(self) -> None:
        """Return when little is waiting to be sent, before much is read to be sent."""
        ...

    def close(self) -> None:
        """End the connection once everything was sent."""
        ...
