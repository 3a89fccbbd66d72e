"""The five designs of a durable loop that S3 compares, as small programs, and its table.

`python -m crashpoint.sweep.designs`. Each program is a job over the public pieces: a store that
saves in one step, a tracker, a scripted model, a person. What they do differently is two flags and
a save.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from crashpoint.inside.points import point

__all__ = ["CALLS", "DESIGNS", "Design", "Outside", "run_design"]

Call = tuple[str, str, dict[str, Any]]
"""A tool call: its id, the operation, the arguments."""

REPLIES: Final[Sequence[Sequence[Call]]] = (
    (
        ("call-1", "file", {"title": "login fails on a space"}),
        ("call-2", "file", {"title": "export stops at midnight"}),
    ),
    (
        ("call-3", "search", {"text": "login"}),
        ("call-4", "comment", {"issue": 1, "text": "also seen with a tab"}),
    ),
    (),
)
"""What the scripted model answers: two turns with two calls each, then nothing more to do."""
CALLS: Final = tuple(call for reply in REPLIES for call in reply if call[1] != "search")
"""The calls that change the tracker."""
RUN: Final = "run-1"


@dataclass(frozen=True)
class Design:
    """One of the five, with the two changes that the definition leaves open."""

    title: str
    saves_replies: bool = False
    """Save as soon as a reply or a result is there, not only at the end of a turn."""
    keys: bool = False
    markers: bool = False
    marks_again: bool = False
    """Save the marker again before a repeat."""
    point_at_ask: bool = False
    """A crash point between a person's answer and its use."""


DESIGNS: Final[Sequence[Design]] = (
    Design("save once per turn"),
    Design("save after the reply", saves_replies=True),
    Design("+ idempotency keys", saves_replies=True, keys=True),
    Design("+ attempt markers, no keys", saves_replies=True, markers=True),
    Design("keys and markers", saves_replies=True, keys=True, markers=True),
)


class Outside(Protocol):
    """What lies outside the process: the store, the tracker, the model, a person."""

    def load(self) -> Any:
        """The state saved last, or None."""
        ...

    def save(self, state: Any) -> None:
        """Replace it in one step."""
        ...

    def reply(self, n: int) -> Sequence[Call]:
        """The model's n-th reply, counted from 0."""
        ...

    def call(self, operation: str, arguments: dict[str, Any], key: str | None) -> Any:
        """Send a request to the tracker."""
        ...

    def ask(self, operation: str, arguments: dict[str, Any]) -> bool:
        """Ask a person whether this has happened."""
        ...


def run_design(design: Design, outside: Outside) -> None:
    """Start or resume the job: what has been saved decides where it goes on."""
    state = outside.load() or {"turns": [], "markers": [], "done": False}
    if state["done"]:
        return
    outside.save(state)
    turns = state["turns"]
    while True:
        if not turns or turns[-1]["closed"]:
            calls = outside.reply(len(turns))
            turns.append({"calls": calls, "results": {}, "closed": not calls})
            if not calls:
                state["done"] = True
                outside.save(state)
                return
            if design.saves_replies:
                outside.save(state)
        turn = turns[-1]
        for call_id, operation, arguments in turn["calls"]:
            if call_id in turn["results"]:
                continue
            turn["results"][call_id] = _perform(
                design, outside, state, (call_id, operation, arguments)
            )
            if design.saves_replies:
                outside.save(state)
                point("saved")
        turn["closed"] = True
        outside.save(state)


def _perform(design: Design, outside: Outside, state: Any, call: Call) -> Any:
    call_id, operation, arguments = call
    if operation == "search":
        return outside.call(operation, arguments, None)
    key = f"{len(RUN)}:{RUN}{len(call_id)}:{call_id}" if design.keys else None
    if design.markers:
        known = call_id in state["markers"]
        if not known:
            state["markers"].append(call_id)
        if known and not design.keys:
            happened = outside.ask(operation, arguments)
            if design.point_at_ask:
                point("asked")
            if happened:
                return "it has happened"
        if not known or design.marks_again:
            outside.save(state)
            point("marked")
    return outside.call(operation, arguments, key)


def flipped(*, marks_again: bool, point_at_ask: bool) -> Sequence[Design]:
    """The designs with the details that would give another table."""
    return [
        replace(design, marks_again=marks_again, point_at_ask=point_at_ask) for design in DESIGNS
    ]


if __name__ == "__main__":
    from crashpoint.sweep.published import command

    command(prog_name="python -m crashpoint.sweep.designs")
