"""The prediction: from a declaration, a barrier and a fault to an outcome.

Three questions decide it. Does the first process execute the effect, does the second one, and
if both do, what does the receiver make of two executions? Each answer is a rule below with its
reason; nothing here knows the name of a row.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from crashpoint.model.declaration import (
    Declaration,
    Determinism,
    Durability,
    EffectMode,
    PersistOrder,
    Takeover,
)
from crashpoint.model.words import Barrier, FaultKind, Outcome

__all__ = ["AtFault", "at_fault", "predict"]


class AtFault(NamedTuple):
    """What must be true when the fault lands in the first process."""

    effect_done: bool
    """An attempt of the effect has reached the outside world."""
    recorded: bool
    """The engine's own store holds the completion."""


def predict(d: Declaration, barrier: Barrier, fault: FaultKind = FaultKind.KILL) -> Outcome:
    """Return the outcome of a trial of a row declaring `d`, with `fault` at `barrier`.

    Total: every declaration has an outcome at every barrier under every `FaultKind`, and it is
    never VOID, because a prediction certifies or is none.
    """
    at = at_fault(d, barrier)
    first = at.effect_done or (_GOES_ON[fault] and d.takeover is Takeover.WHILE_ALIVE)
    # Recovery skips an effect whose completion it reads, and executes every other one.
    second = not at.recorded
    if first and second:
        return _executed_twice(d)
    # A completion recorded ahead of an effect that then never happened.
    if not first and not second:
        return Outcome.LOST
    return Outcome.EXACTLY_ONCE


def at_fault(d: Declaration, barrier: Barrier) -> AtFault:
    """Return what must be true in world and store while the first process stands at `barrier`.

    The harness compares it with what it finds between fault and recovery: a fault that landed
    elsewhere is no trial of this barrier.
    """
    passed = _PASSED[d.persist_order, barrier]
    # Without durability the barriers lie at the same places, but nothing is written there.
    return AtFault(passed.effect_done, passed.recorded and d.durability == Durability.JOURNALED)


# What a process has behind it at each barrier, if persisting writes something.
_PASSED: Mapping[tuple[PersistOrder, Barrier], AtFault] = MappingProxyType(
    {
        (PersistOrder.AFTER_EFFECT, Barrier.B0): AtFault(effect_done=False, recorded=False),
        (PersistOrder.AFTER_EFFECT, Barrier.B1): AtFault(effect_done=True, recorded=False),
        (PersistOrder.AFTER_EFFECT, Barrier.B2): AtFault(effect_done=True, recorded=True),
        (PersistOrder.BEFORE_EFFECT, Barrier.B0): AtFault(effect_done=False, recorded=False),
        (PersistOrder.BEFORE_EFFECT, Barrier.B1): AtFault(effect_done=False, recorded=True),
        (PersistOrder.BEFORE_EFFECT, Barrier.B2): AtFault(effect_done=True, recorded=True),
    }
)

# A killed process never does what lay ahead of it, nor does one that was ended before another took
# over. A thawed one does all of it, and does not look at the store again, so it executes the effect
# sooner or later whatever others did.
_GOES_ON: Mapping[FaultKind, bool] = MappingProxyType(
    {FaultKind.KILL: False, FaultKind.FREEZE: True}
)


def _executed_twice(d: Declaration) -> Outcome:
    # Under a known key the second execution is no crossing, even if it carries another action.
    if _same_key_again(d):
        return Outcome.EXACTLY_ONCE
    if d.determinism == Determinism.REPRODUCIBLE:
        return Outcome.DUPLICATED
    return Outcome.DIVERGED


def _same_key_again(d: Declaration) -> bool:
    # A key made from the action is only as stable as the action.
    if d.effect_mode == EffectMode.IDEMPOTENT:
        return d.determinism == Determinism.REPRODUCIBLE
    # An identity survives the draw if the second process can read it back, and so not without
    # durability, where each process makes its own.
    if d.effect_mode == EffectMode.TWOPHASE:
        return d.durability == Durability.JOURNALED
    # Naive: no key at all.
    return False
