"""What says how far a sweep is, for terminals and for logs; each leaves a terminal as it was.

None of them starts a thread: a process with threads cannot be forked.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final, Protocol, TextIO

from crashpoint.report.palette import PALETTE
from crashpoint.sweep.meter import Meter
from crashpoint.sweep.report import OUTCOMES, WORST_FIRST

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

    from crashpoint.sweep.report import Report
    from crashpoint.sweep.words import Scenario

__all__ = ["LiveLine", "Progress", "progress_for"]

AFTER_S: Final = 1.0
"""A sweep that is quicker shows nothing in a test's output."""
EVERY_S: Final = 0.25
PLAIN_EVERY_S: Final = 5.0
WIDTH: Final = 80
"""Columns of a terminal that does not say."""


class Progress(Protocol):
    """Somebody who is told of each scenario, and of the end."""

    def tell(self, scenario: Scenario, report: Report) -> None:
        """One more scenario."""
        ...

    def end(self) -> None:
        """No more will come; telling it twice is allowed."""
        ...


def progress_for(stream: TextIO) -> Progress:
    """A strip of points that fills where a person watches a terminal, plain lines elsewhere."""
    drawable = os.environ.get("TERM", "dumb") not in {"", "dumb", "unknown"}
    watched = os.environ.get("CI", "") in {"", "0", "false"}
    if stream.isatty() and drawable and watched:
        return _Strip(stream)
    return _Lines(stream)


class _Lines:
    """A line every few seconds."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._meter = Meter()
        self._next = time.monotonic() + PLAIN_EVERY_S

    def tell(self, scenario: Scenario, report: Report) -> None:
        self._meter.tell(scenario, report)
        now = time.monotonic()
        if now >= self._next:
            self._next = now + PLAIN_EVERY_S
            self._out.write(self._meter.line() + "\n")
            self._out.flush()

    def end(self) -> None:
        """Nothing is left open."""


class _Strip:
    """The points as a strip that takes on the colour of the worst that came of each."""

    def __init__(self, out: TextIO) -> None:
        from rich.console import Console

        self._console = Console(file=out, highlight=False, markup=False, emoji=False)
        self._meter = Meter()
        self._report: Report | None = None
        self._next = time.monotonic()
        self._live: Live | None = None

    def tell(self, scenario: Scenario, report: Report) -> None:
        from rich.live import Live

        self._meter.tell(scenario, report)
        self._report = report
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + EVERY_S
        if self._live is None:
            self._live = Live(
                console=self._console,
                get_renderable=self._draw,
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
            self._console.show_cursor(show=True)
        self._live.refresh()

    def end(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _draw(self) -> RenderableType:
        from rich.text import Text

        strip = Text()
        report = self._report
        full, empty = "#." if self._console.options.ascii_only else "\u2588\u2591"
        for n in range(1, len(report.points) + 1 if report else 1):
            first = report.firsts.get(n) if report else None
            if first is None:
                strip.append(empty, style="bright_black")
                continue
            codes = {first.code, *(code for _, code in first.again)}
            worst = next((code for code in WORST_FIRST if code in codes), ".")
            strip.append(full, style=PALETTE[OUTCOMES[worst]].terminal)
        return Text.assemble((self._meter.line(), "bold"), "\n", strip)


class LiveLine:
    """Writes below the line that the terminal stands in, whose text reaches to `column`."""

    def __init__(self, *, column: int) -> None:
        self._column = column
        self._meter = Meter()
        self._next = time.monotonic() + AFTER_S
        self._fd: int | None = None
        self._shown = False

    def open(self, fd: int) -> None:
        """Write to a copy of this descriptor from now on."""
        self._fd = os.dup(fd)

    def tell(self, scenario: Scenario, report: Report) -> None:
        """One more scenario; draws the line when it is time."""
        self._meter.tell(scenario, report)
        now = time.monotonic()
        if now >= self._next:
            self._next = now + EVERY_S
            self._draw()

    def close(self) -> None:
        """Take the line away, and stand where the cursor stood."""
        if self._fd is None:
            return
        if self._shown:
            right = f"\x1b[{self._column}C" if self._column else ""
            self._write(f"\r\x1b[K\x1b[1A\r{right}")
        os.close(self._fd)
        self._fd = None

    def _draw(self) -> None:
        width = _width(self._fd)
        text = f"  crash sweep: {self._meter.line()}"
        self._write(("\r" if self._shown else "\n") + text[: width - 1] + "\x1b[K")
        self._shown = True

    def _write(self, text: str) -> None:
        if self._fd is not None:
            os.write(self._fd, text.encode())


def _width(fd: int | None) -> int:
    try:
        return os.get_terminal_size(1 if fd is None else fd).columns or WIDTH
    except OSError:
        return WIDTH
