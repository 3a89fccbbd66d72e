"""What a run tells while it goes: cells as they fill, notes, an end.

Plain lines for logs, a matrix that fills for terminals; `progress_for` chooses.
"""

from __future__ import annotations

import io
import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol, TextIO

from crashpoint.model import Outcome, worst
from crashpoint.report.palette import PALETTE
from crashpoint.report.words import count, plain, plural

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

__all__ = ["LiveProgress", "PlainProgress", "Progress", "progress_for"]


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
        """No more will come; telling it twice, or without a beginning, is allowed."""
        ...


def progress_for(stream: TextIO | None) -> Progress:
    """A filling matrix where a person watches a terminal that can draw, plain lines elsewhere.

    Nobody need listen: what cannot be told is not a reason to stop.
    """
    if stream is None:
        return PlainProgress(io.StringIO())
    drawable = os.environ.get("TERM", "dumb") not in {"", "dumb", "unknown"}
    watched = os.environ.get("CI", "") in {"", "0", "false"}
    if stream.isatty() and drawable and watched:
        return LiveProgress(stream)
    return PlainProgress(stream)


class _Tally:
    """Counts of a run so far."""

    def __init__(self, rows: Sequence[str], barriers: Sequence[str], k: int, fault: str) -> None:
        self.rows, self.barriers, self.k, self.fault = rows, barriers, k, fault
        # Made whole at the beginning, because a drawing thread looks while trials are counted.
        self.cells = {(row, barrier): Counter[str]() for row in rows for barrier in barriers}
        self.differing = dict.fromkeys(self.cells, 0)
        self.begun = time.monotonic()
        self.done = 0
        self.total = len(self.cells) * k

    def add(self, row: str, barrier: str, outcome: str, *, agrees: bool) -> None:
        self.cells[row, barrier][outcome] += 1
        self.differing[row, barrier] += not agrees
        self.done += 1

    def title(self) -> str:
        return (
            f"{plural(len(self.rows), 'row')} x {plural(len(self.barriers), 'barrier')} x {self.k}"
            f" = {plural(self.total, 'trial')}, fault {self.fault}"
        )

    def line(self) -> str:
        """Trials, rate and what is left."""
        words = self.progress()
        if 0 < self.done < self.total:
            left_s = (self.total - self.done) * (time.monotonic() - self.begun) / self.done
            words.append(f"ETA {left_s:.0f} s")
        return ", ".join([*words, *self.worries()])

    def last_line(self) -> str:
        """How far it came."""
        head = "all trials sealed" if self.done == self.total else "stopped before the end"
        return f"{head}: {', '.join([*self.progress(), *self.worries()])}"

    def progress(self) -> list[str]:
        """Trials, seconds passed and rate."""
        passed_s = time.monotonic() - self.begun
        words = [f"{count(self.done)}/{count(self.total)} trials", f"{passed_s:.0f} s"]
        return [*words, f"{self.done / passed_s:.1f} trials/s"] if self.done and passed_s else words

    def worries(self) -> list[str]:
        """VOID trials and disagreements so far, if there are any."""
        void = sum(cell[Outcome.VOID] for cell in self.cells.values())
        differing = sum(self.differing.values())
        found = [f"{count(void)} VOID"] if void else []
        return [*found, plural(differing, "disagreement")] if differing else found


class PlainProgress:
    """A line at the beginning, one every few seconds while trials are sealed, one at the end."""

    every_s: Final = 5.0

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._tally: _Tally | None = None
        self._told = 0.0

    def begin(
        self, *, rows: Sequence[Mapping[str, Any]], barriers: Sequence[str], k: int, fault: str
    ) -> None:
        """Say what will run."""
        self._tally = _Tally([row["name"] for row in rows], barriers, k, fault)
        self._told = time.monotonic()
        self.note(self._tally.title())

    def trial(self, row: str, barrier: str, outcome: str, *, agrees: bool) -> None:
        """Count it; say so when it is time, and at once when it is the first that disagrees."""
        assert self._tally is not None
        self._tally.add(row, barrier, outcome, agrees=agrees)
        now = time.monotonic()
        if not agrees and self._tally.differing[row, barrier] == 1:
            self.note(f"{row} at {barrier}: a trial is {outcome}, which was not predicted")
        if now - self._told >= self.every_s and self._tally.done < self._tally.total:
            self._told = now
            self.note(self._tally.line())

    def note(self, line: str) -> None:
        """Print it."""
        with suppress(OSError, ValueError):
            self._out.write(plain(line) + "\n")
            self._out.flush()

    def end(self) -> None:
        """Say how far it came."""
        tally, self._tally = self._tally, None
        if tally is not None:
            self.note(tally.last_line())


class LiveProgress:
    """The matrix, filling; notes below. It leaves the notes and a last line behind.

    The cursor stays visible and the screen is the ordinary one: even a SIGKILL in the middle leaves
    a terminal that works.
    """

    frames_per_s: Final = 4
    notes_shown: Final = 4

    def __init__(self, out: TextIO) -> None:
        from rich.console import Console

        self._console = Console(file=out, highlight=False, markup=False, emoji=False)
        self._tally: _Tally | None = None
        self._notes: list[str] = []

    def begin(
        self, *, rows: Sequence[Mapping[str, Any]], barriers: Sequence[str], k: int, fault: str
    ) -> None:
        """Start drawing."""
        from rich.live import Live

        self._tally = _Tally([row["name"] for row in rows], barriers, k, fault)
        self._live = Live(
            console=self._console,
            get_renderable=self._draw,
            refresh_per_second=self.frames_per_s,
            transient=True,
            redirect_stdout=False,  # it may be a file, and is not ours
        )
        self._live.start()
        self._console.show_cursor(show=True)

    def trial(self, row: str, barrier: str, outcome: str, *, agrees: bool) -> None:
        """Count it; the next frame shows it."""
        assert self._tally is not None
        self._tally.add(row, barrier, outcome, agrees=agrees)

    def note(self, line: str) -> None:
        """Show it below the matrix, or print it if nothing is being drawn."""
        if self._tally is None:
            self._console.print(plain(line))
        else:
            self._notes.append(plain(line))

    def end(self) -> None:
        """Clear the drawing; leave the notes and a last line."""
        if self._tally is None:
            return
        self._live.stop()
        tally, self._tally = self._tally, None
        for line in [*self._notes, tally.last_line()]:
            self._console.print(line)

    def _draw(self) -> RenderableType:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        tally = self._tally
        if tally is None:
            return Text()
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for heading in ("", *tally.barriers):
            table.add_column(heading, no_wrap=True)
        bar = _Bar(tally, self._console)
        for row in tally.rows:
            table.add_row(Text(plain(row)), *(bar.cell(row, barrier) for barrier in tally.barriers))
        notes = [Text(line) for line in self._notes[-self.notes_shown :]]
        return Group(Text(tally.title()), Text(tally.line(), style="bold"), table, *notes)


class _Bar:
    """Draws cells: a bar with each outcome's share, the count, and the most frequent outcome."""

    length: Final = 8

    def __init__(self, tally: _Tally, console: Console) -> None:
        self._tally = tally
        ascii_only = console.options.ascii_only
        self._full, self._empty = "#." if ascii_only else "\N{FULL BLOCK}\N{LIGHT SHADE}"
        without = 2 * len(str(tally.k)) + len(" /  EXACTLY_ONCE!  ")
        names = max(map(len, tally.rows), default=0) + 2
        fits = names + (without + self.length) * len(tally.barriers) <= console.width
        self._length = self.length if fits else 0

    def cell(self, row: str, barrier: str) -> Text:
        from rich.text import Text

        counts = dict(self._tally.cells[row, barrier])
        drawn = Text()
        done = filled = 0
        # The rarest first: each outcome seen gets a character, however short the bar.
        for name in sorted(counts, key=counts.__getitem__):
            done += counts[name]
            upto = min(self._length, max(filled + 1, round(done * self._length / self._tally.k)))
            drawn.append(self._full * (upto - filled), style=PALETTE[Outcome(name)].terminal)
            filled = max(filled, upto)
        drawn.append(self._empty * (self._length - filled), style="bright_black")
        drawn.append(f" {done:>{len(str(self._tally.k))}}/{self._tally.k} ")
        if counts:
            most = max(counts.values())
            name = worst(Outcome(name) for name, number in counts.items() if number == most)
            drawn.append(name, style=PALETTE[name].terminal)
        if self._tally.differing[row, barrier]:
            drawn.append("!", style="bold red")
        return drawn
