"""How figures and foreign texts are written, the same in every output, and what explains them."""

from __future__ import annotations

import re
import textwrap
from typing import Final

__all__ = [
    "READING",
    "RECOVERING",
    "count",
    "duration",
    "folded",
    "plain",
    "plural",
]

READING: Final = (
    "b0 is before the effect and before its completion is saved, b1 between the two, b2 after both."
    " Hits are the trials that came out as predicted, of all k, VOID ones included. A red cell"
    " (DUPLICATED, DIVERGED, LOST) that was predicted is a fact about the row, no fault of the run."
)
"""How to read a matrix."""

RECOVERING: Final = (
    "Time to recover, from the fault to the engine's final state. hot: a process took over that had"
    " the engine imported; cold: a fresh interpreter did. p95 is given for 30 recoveries or more."
)
"""What the times are."""


def count(number: int) -> str:
    """A number with thousands apart: 1,800."""
    return f"{number:,}"


def plural(number: int, noun: str, nouns: str | None = None) -> str:
    """A number and its noun: 1 trial, 1,800 trials; `nouns` where an s is not enough."""
    return f"{count(number)} {noun if number == 1 else nouns or f'{noun}s'}"


def duration(us: float) -> str:
    """Microseconds to three digits: 940 us, 8.31 ms, 141 ms, 2.04 s."""
    for limit, unit, scale in ((999.5, "us", 1), (999_500, "ms", 1e3)):
        if us < limit:
            return f"{_three(us / scale)} {unit}"
    return f"{_three(us / 1e6)} s"


def plain(text: object) -> str:
    """Text on one line without control characters: what a subject said is shown, never obeyed."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in str(text))


def folded(line: str, width: int, *, first: str = "", rest: str = "") -> list[str]:
    """Break a line at spaces and after commas; `first` and `rest` stand before the lines."""
    wrapper = textwrap.TextWrapper(
        width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    )
    wrapper.wordsep_simple_re = re.compile(r"(\s+|(?<=,)(?=\S))")
    return wrapper.wrap(line)


def _three(value: float) -> str:
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{digits}f}"
