"""The words of the prediction: outcomes, barriers and the faults that are predicted.

Every value is the word as it is printed and written into evidence.
"""

from collections.abc import Iterable
from enum import StrEnum

__all__ = ["Barrier", "FaultKind", "Outcome", "worst"]


class Outcome(StrEnum):
    """What one trial did to the outside world, as the oracle judges it."""

    EXACTLY_ONCE = "EXACTLY_ONCE"
    """The effect crossed once."""
    DUPLICATED = "DUPLICATED"
    """The effect crossed more than once, always with the same action."""
    DIVERGED = "DIVERGED"
    """The effect crossed more than once, with different actions."""
    LOST = "LOST"
    """The run ended and the effect never crossed."""
    VOID = "VOID"
    """The trial cannot be certified."""


class Barrier(StrEnum):
    """A crash point shared by all engines, named by where it lies among effect and persist."""

    B0 = "b0"
    """Before both."""
    B1 = "b1"
    """Between them, whichever comes first."""
    B2 = "b2"
    """After both."""


class FaultKind(StrEnum):
    """A fault the model predicts."""

    KILL = "kill"
    """The process dies at the barrier; one recovery runs to the end."""
    FREEZE = "freeze"
    """The process stops at the barrier, another recovers to the end, then the first goes on."""


_WORST_FIRST = (
    Outcome.VOID,
    Outcome.DIVERGED,
    Outcome.DUPLICATED,
    Outcome.LOST,
    Outcome.EXACTLY_ONCE,
)


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """Return the worst of `outcomes`: VOID > DIVERGED > DUPLICATED > LOST > EXACTLY_ONCE.

    No outcome at all certifies nothing, so the worst of none is VOID.
    """
    return min(outcomes, key=_WORST_FIRST.index, default=Outcome.VOID)
