"""Numbers that are given out once, and the engine's time, which never goes back.

All are reserved ahead, so that giving one out needs no commit of its own: what is stored is at
least what was given out, and after a restart they go on from there.
"""

from __future__ import annotations

from typing import Final

from outlive.core.rows import NumbersRow
from outlive.server.ports import Clock
from outlive.server.records import Draft, Records, row_of
from outlive.store.api import Key

__all__ = ["INSTANT_MAX", "Numbers", "instant"]

BLOCK: Final = 4096
AHEAD_MS: Final = 1000
INSTANT_MAX: Final = 253_402_300_799_999
"""The end of the year 9999: no instant is later."""


class Numbers:
    """Give out with `next_run`, `next_event`, `now_ms`; commits are made in the order of calls."""

    def __init__(self, records: Records, clock: Clock) -> None:
        self._records = records
        self._clock = clock
        self._row = NumbersRow()
        self._version = 0
        self._runs = 0
        self._time_ms = 0
        self.events = 0
        """The last one given to an event."""

    async def open(self) -> None:
        """Go on from what is stored."""
        (record,) = await self._records.store.load([Key("numbers", "")])
        self._row = NumbersRow() if record is None else row_of(record, NumbersRow)
        self._version = 0 if record is None else record.version
        self._runs = self._row.runs
        self.events = self._row.events
        self._time_ms = self._row.time_ms

    @property
    def incarnation(self) -> int:
        """How often the store was put back to an older state."""
        return self._row.incarnation

    def next_run(self) -> int:
        """A run's number."""
        self._runs += 1
        if self._runs > self._row.runs:
            self._row.runs = self._runs + BLOCK
            self._reserve()
        return self._runs

    def next_event(self) -> int:
        """An event's number."""
        self.events += 1
        if self.events > self._row.events:
            self._row.events = self.events + BLOCK
            self._reserve()
        return self.events

    def now_ms(self) -> int:
        """Milliseconds since 1970, never less than before, not even before a restart."""
        wall = self._clock.wall_ms()
        if wall > self._time_ms:
            self._time_ms = wall
            if wall > self._row.time_ms:
                self._row.time_ms = wall + AHEAD_MS
                self._reserve()
        return self._time_ms

    def peek_ms(self) -> int:
        """The same to compare with, and to say to nobody: costs no commit when a second is over."""
        return max(self._time_ms, self._clock.wall_ms())

    def due_ms(self, for_ms: int | None) -> int | None:
        """The instant so long from now, which may be the last there is."""
        return None if for_ms is None else instant(self.now_ms() + for_ms, self.now_ms())

    def _reserve(self) -> None:
        draft = Draft()
        self._version = draft.put("numbers", "", self._version, self._row)
        self._records.commit(draft)


def instant(at_ms: int, least: int = 0) -> int:
    """The instant, or the nearest that can be stored."""
    return min(max(at_ms, least), INSTANT_MAX)
