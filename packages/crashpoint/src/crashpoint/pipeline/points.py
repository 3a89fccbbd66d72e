"""Points, how a subject is seen to reach one, and what is injected there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from crashpoint.pipeline.contract import Launch

__all__ = ["GO", "Injection", "Point", "PointSource", "Reached"]

GO: dict[str, object] = {"go": True}
"""The answer that lets an announcing thread continue."""


@dataclass(frozen=True, order=True)
class Point:
    """A place where a fault can be injected, found again in another process by these fields."""

    source: str
    name: str
    ordinal: int = 1
    """1 for the first time a process reaches it."""
    where: str | None = None


@dataclass
class Reached:
    """A subject stands at a point: its announcing thread waits for the answer."""

    point: Point
    pid: int
    """As the kernel says who announced it."""
    answer: asyncio.Future[dict[str, object]] = field(repr=False)

    def release(self, answer: dict[str, object] | None = None) -> None:
        """Let the thread go on; does nothing when it is not waiting any more."""
        if not self.answer.done():
            self.answer.set_result(GO if answer is None else answer)


@dataclass(frozen=True)
class Injection:
    """Which fault, by name, at which point."""

    point: Point
    fault: str


class PointSource(Protocol):
    """Where the points of one process come from."""

    def known(self) -> Sequence[Point] | None:
        """The points, when they are listed; None when a clean run has to discover them."""
        ...

    def attach(self, launch: Launch) -> Launch:
        """The launch with what the process needs in order to announce."""
        ...

    def reached(self) -> AsyncIterator[Reached]:
        """Points as they are reached. Each must be released or its process killed."""
        ...
