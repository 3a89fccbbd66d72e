"""The colour of each outcome, the same in pictures, pages and on the terminal.

Chosen so that people who see two of the three primary colours, and a grey print, tell them apart:
they differ in lightness first and in hue second. No output relies on colour alone.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from crashpoint.model import Outcome

__all__ = ["MEANING", "PALETTE", "Shade"]


class Shade(NamedTuple):
    """A fill and the ink that is read on it, as #rrggbb, and a name rich knows for terminals."""

    fill: str
    ink: str
    terminal: str


PALETTE: Final[Mapping[Outcome, Shade]] = MappingProxyType(
    {
        Outcome.EXACTLY_ONCE: Shade("#a9dccf", "#0d332b", "green"),
        Outcome.DUPLICATED: Shade("#e8962e", "#2b1700", "yellow"),
        Outcome.DIVERGED: Shade("#bd4489", "#ffffff", "magenta"),
        Outcome.LOST: Shade("#1c2748", "#ffffff", "bright_blue"),
        Outcome.VOID: Shade("#f6f5f2", "#33302b", "bright_black"),
    }
)
"""Outcome -> its colours. VOID is also hatched where hatching is possible."""

MEANING: Final[Mapping[Outcome, str]] = MappingProxyType(
    {
        Outcome.EXACTLY_ONCE: "the effect crossed once",
        Outcome.DUPLICATED: "it crossed again with the same action",
        Outcome.DIVERGED: "it crossed again with another action",
        Outcome.LOST: "the run ended and it never crossed",
        Outcome.VOID: "cannot be certified",
    }
)
"""Outcome -> what it says, in a few words."""
