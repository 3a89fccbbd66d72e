"""What the effects in receivers' records are called, so that two runs can be compared.

An effect has the same name in every run; how often it crossed and with what is counted beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

__all__ = ["REFERENCES", "ByContent", "Made", "Name", "name_by_content", "seen_in"]

Name = Callable[[str, Mapping[str, Any]], str]
"""Names an effect from a request's operation and arguments: what does not change between runs.

An argument that is the number of something made before (`issue`, `charge`) is given as the name of
the effect that made it, since a number changes with each request too many.
"""


REFERENCES: Final[Mapping[str, str]] = MappingProxyType({"comment": "issue", "refund": "charge"})
"""By operation, the argument that is the number of something made before."""


class Made(str):
    """The name of an effect in place of the number of what it made."""

    __slots__ = ()
    __repr__ = str.__str__


def name_by_content(op: str, args: Mapping[str, Any]) -> str:
    """The operation and all of its arguments but empty ones."""
    given = [f"{name}={value!r}" for name, value in args.items() if value != ""]
    return f"{op}({', '.join(given)})"


class ByContent:
    """`name_by_content`, without arguments that turned out to be other ones in each run."""

    def __init__(self) -> None:
        self.without: set[tuple[str, str]] = set()
        """Operation and argument."""

    def __call__(self, op: str, args: Mapping[str, Any]) -> str:
        """See `Name`."""
        if not self.without:
            return name_by_content(op, args)
        kept = {name: value for name, value in args.items() if (op, name) not in self.without}
        return name_by_content(op, kept)

    def learn(self, records: Iterable[Any], others: Iterable[Any]) -> bool:
        """Leave out what differs between the records of two runs; False if that is nothing new."""
        some = [(r["op"], r["args"]) for r in records if r["did"] == "acted"]
        rest = [(r["op"], r["args"]) for r in others if r["did"] == "acted"]
        if [op for op, _ in some] != [op for op, _ in rest]:
            return False
        known = len(self.without)
        for (op, args), (_, again) in zip(some, rest, strict=True):
            differ = {(op, name) for name, value in args.items() if again[name] != value}
            self.without |= differ - {(op, REFERENCES.get(op, ""))}
        return len(self.without) > known


def seen_in(records: Any, name: Name) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    """From a receiver's records: crossings by effect name, each with its content; the swallowed."""
    crossings: dict[str, tuple[str, ...]] = {}
    swallowed: dict[str, None] = {}
    made: dict[int, str] = {}
    for record in records:
        did, op, args = record["did"], record["op"], record["args"]
        if did != "acted" and did != "repeated":  # noqa: PLR1714  half the time of a set
            continue
        refers = REFERENCES.get(op)
        if refers is not None and args[refers] in made:
            args = {**args, refers: Made(made[args[refers]])}
        effect = name(op, args)
        if did == "acted":
            made[record["id"]] = effect
            content = repr(args)
            known = crossings.get(effect)
            crossings[effect] = (content,) if known is None else (*known, content)
        elif made.get(record["id"]) != effect:
            swallowed[effect] = None
    return crossings, tuple(swallowed)
