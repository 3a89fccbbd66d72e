"""A second opinion: run the declared program step by step and count what crossed.

It shares no rule with `predict`, only the words; the two must agree on the whole product.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import count

from crashpoint.model.declaration import (
    Declaration,
    Determinism,
    Durability,
    EffectMode,
    PersistOrder,
    Takeover,
)
from crashpoint.model.words import Barrier, FaultKind, Outcome

__all__ = ["interpret", "run_to"]


class Do(Enum):
    """An instruction; the barriers lie between them."""

    IDENTIFY = auto()
    EFFECT = auto()
    PERSIST = auto()


@dataclass
class World:
    """One engine's store and the outside world, shared by all processes of a trial."""

    identity: int | None = None
    recorded: bool = False
    crossed: list[tuple[int | None, int]] = field(default_factory=list)
    """The key and the action of each crossing, in order."""
    fresh: Iterator[int] = field(default_factory=lambda: count(1))
    """Values nobody has drawn before; 0 is the action that is made again each time."""

    def attempt(self, key: int | None, action: int) -> None:
        """Receive one attempt: a crossing, unless its key is known."""
        if key is None or all(key != known for known, _ in self.crossed):
            self.crossed.append((key, action))


class Process:
    """One process: reads the store once, when it starts, and then only writes to it."""

    def __init__(self, d: Declaration, world: World) -> None:
        self.d, self.world = d, world
        self.identity, self.skip_effect = world.identity, world.recorded
        middle: list[Do | Barrier] = [Do.EFFECT, Barrier.B1, Do.PERSIST]
        if d.persist_order is PersistOrder.BEFORE_EFFECT:
            middle.reverse()
        self.ahead = [Do.IDENTIFY, Barrier.B0, *middle, Barrier.B2]

    def run(self, *, until: Barrier | None = None) -> None:
        """Go on from where it stands, to the barrier `until` or to the end."""
        while self.ahead and (instruction := self.ahead.pop(0)) is not until:
            if instruction is Do.IDENTIFY and self.identity is None:
                self.identity = next(self.world.fresh)
                if self.d.durability is Durability.JOURNALED:
                    self.world.identity = self.identity
            elif instruction is Do.PERSIST and self.d.durability is Durability.JOURNALED:
                self.world.recorded = True
            elif instruction is Do.EFFECT and not self.skip_effect:
                drawn = self.d.determinism is Determinism.DRAWN
                action = next(self.world.fresh) if drawn else 0
                keys = {EffectMode.IDEMPOTENT: action, EffectMode.TWOPHASE: self.identity}
                self.world.attempt(keys.get(self.d.effect_mode), action)


def run_to(d: Declaration, barrier: Barrier) -> tuple[Process, World]:
    """Return the first process, standing at `barrier`, and the world as it is at that moment."""
    world = World()
    first = Process(d, world)
    first.run(until=barrier)
    return first, world


def interpret(d: Declaration, barrier: Barrier, fault: FaultKind) -> Outcome:
    """Run the first process to `barrier`, let another recover, thaw the first if it is frozen.

    One that was ended while it stood still is not there to be thawed.
    """
    first, world = run_to(d, barrier)
    Process(d, world).run()
    if fault is FaultKind.FREEZE and d.takeover is not Takeover.AFTER_DEATH:
        first.run()
    return _judge([action for _, action in world.crossed])


def _judge(actions: Sequence[int]) -> Outcome:
    if not actions:
        return Outcome.LOST
    if len(actions) == 1:
        return Outcome.EXACTLY_ONCE
    return Outcome.DUPLICATED if len(set(actions)) == 1 else Outcome.DIVERGED
