"""A state machine as a table: states, what may happen in each, and what then follows.

An event that a state does not know raises `Illegal` and changes nothing. `diagram` draws a table
for the documentation, which is how the pictures there stay true.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Generic, TypeVar

__all__ = ["Illegal", "Machine"]

S = TypeVar("S", bound=str)
E = TypeVar("E", bound=str)


class Illegal(RuntimeError):
    """An event that the present state does not allow; the message names both."""


@dataclass(frozen=True)
class Machine(Generic[S, E]):
    """`table` maps a state to its events and the states that follow; it begins in `first`.

    `about` is one sentence on what this is a machine of.
    """

    name: str
    about: str
    first: S
    table: Mapping[S, Mapping[E, S]]

    def __post_init__(self) -> None:
        frozen = {state: MappingProxyType(dict(row)) for state, row in self.table.items()}
        object.__setattr__(self, "table", MappingProxyType(frozen))

    def after(self, state: S, event: E) -> S:
        """The state that follows; raises Illegal."""
        followers = self.table.get(state)
        if followers is None or event not in followers:
            raise Illegal(f"{self.name}: {event} is not possible in state {state}")
        return followers[event]

    def allows(self, state: S, event: E) -> bool:
        """Whether the event may happen in the state."""
        return event in self.table.get(state, {})

    def final(self, state: S) -> bool:
        """Whether nothing leads out of the state; raises Illegal for what is no state of it."""
        followers = self.table.get(state)
        if followers is None:
            raise Illegal(f"{self.name} has no state {state!r}")
        return not followers

    def diagram(self) -> str:
        """The table as a Mermaid state diagram; events that lead to one state share an arrow."""
        lines = ["stateDiagram-v2", f"    [*] --> {self.first}"]
        for state, followers in self.table.items():
            arrows: dict[S, list[E]] = {}
            for event, then in followers.items():
                arrows.setdefault(then, []).append(event)
            lines += [f"    {state} --> {then}: {', '.join(by)}" for then, by in arrows.items()]
            if not followers:
                lines.append(f"    {state} --> [*]")
        return "\n".join(lines)
