"""What a run tells while it goes: cells as they fill, notes, an end. Plain lines; `live` draws."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TextIO

__all__ = ["PlainProgress", "Progress"]


class Progress(Protocol):
    """Somebody who is told."""

    def begin(
        self, *, rows: Sequence[Mapping[str, Any]], barriers: Sequence[str], k: int, fault: str
    ) -> None:
        """The run's shape; `rows` as in evidence, with their predictions."""
        ...

    def trial(self, row: str, barrier: str, outcome: str, *, agrees: bool) -> None:
        """One more trial of a cell is sealed."""
        ...

    def note(self, line: str) -> None:
        """Something worth a line of its own."""
        ...

    def end(self) -> None:
        """No more will come."""
        ...


class PlainProgress:
    """A line when a cell is full, and one every few seconds while none is."""

    every_s = 5.0

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._done: dict[tuple[str, str], int] = {}

    def begin(
        self, *, rows: Sequence[Mapping[str, Any]], barriers: Sequence[str], k: int, fault: str
    ) -> None:
        """Say what will run."""
        self._k, self._total = k, len(rows) * len(barriers) * k
        self._begun = self._told = time.monotonic()
        self.note(
            f"{len(rows)} rows x {len(barriers)} barriers x {k} = {self._total} trials, fault {fault}"
        )

    def trial(self, row: str, barrier: str, outcome: str, *, agrees: bool) -> None:
        """Count it; say so when the cell is full or it is time."""
        cell = (row, barrier)
        self._done[cell] = self._done.get(cell, 0) + 1
        now = time.monotonic()
        if self._done[cell] < self._k and now - self._told < self.every_s:
            return
        self._told = now
        done = sum(self._done.values())
        rate = done / max(now - self._begun, 1e-9)
        eta_s = (self._total - done) / rate
        self.note(
            f"{done}/{self._total} trials  {rate:.1f}/s  ETA {eta_s:.0f} s  ({row} {barrier})"
        )

    def note(self, line: str) -> None:
        """Print it."""
        self._out.write(line + "\n")
        self._out.flush()

    def end(self) -> None:
        """Nothing to clear."""
