"""The words of a sweep: kinds of points, how a process ended, what a scenario came to."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from crashpoint.model import Outcome
from crashpoint.pipeline.judge import Ending, Result

__all__ = [
    "DISCOVER",
    "KINDS",
    "Process",
    "Scenario",
    "Seen",
    "SweepFault",
    "Verdict",
    "When",
    "id_of",
    "kind_of",
]

DISCOVER: Final = -1
"""In place of a point's number: let the process end, and note where its points are."""

KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "reply": "the model's reply has arrived",
        "marked": "a marker has been saved",
        "sending": "a request is about to be sent",
        "accepted": "a receiver has accepted a request",
        "timeout": "a request has had no answer: whether it was done is not known",
        "returned": "a tool has returned",
        "saved": "a result has been saved",
        "tmp": "a save is half done: the temporary file is written and not renamed",
        "renamed": "a save is done: the temporary file has been renamed",
        "truncated": "a file has been opened for writing in place and is empty",
        "written": "bytes have been written into a file in place",
        "created": "a file or folder has been made",
        "removed": "a file or folder has been removed",
        "committed": "a database has committed",
    }
)
"""What is true at a point of each kind. Programs may announce kinds of their own."""


class SweepFault(RuntimeError):
    """The sweep cannot go on or certifies nothing; one line with the remedy."""


class When(StrEnum):
    """How one process of a scenario ended."""

    ENDED = "ended"
    CRASHED = "crashed"
    FAILED = "failed"
    """By itself, with an error."""
    HUNG = "hung"


@dataclass(slots=True)
class Process:
    """One process of a scenario: how it ended, the points it passed, what it said and returned."""

    when: When
    passed: list[str]
    said: str = ""
    result: Any = None
    places: list[str] = field(default_factory=list)
    """Where in the code the points were announced, when that was asked for."""
    calls: list[tuple[str, str]] = field(default_factory=list)
    """Id and operation of each change that a scripted model asked for, as far as that is known."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the outside world holds: for each effect the digests of the actions that crossed."""

    crossings: Mapping[str, tuple[str, ...]]
    asks: int = 0
    model_calls: int = 0
    swallowed: tuple[str, ...] = ()
    """Effects that were asked for under another one's key, so that a receiver took them for it."""
    ops: Mapping[str, int] = field(default_factory=dict)
    """Crossings by operation."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a scenario came to, in S3's columns and ours."""

    outcome: Outcome
    ending: Ending = Ending.ENDED
    result: Result = Result.NOT_CHECKED
    dups: int = 0
    missing: int = 0
    asks: int = 0
    calls: int = 0
    """Model calls beyond those of a run without a crash."""
    void: str | None = None

    @property
    def good(self) -> bool:
        """Each effect once, the run ended, the result as without a crash."""
        return self.outcome is Outcome.EXACTLY_ONCE and self.result is not Result.WRONG


@dataclass(frozen=True, slots=True)
class Scenario:
    """Crash process 1 at point `path[0]`, its restart at `path[1]`, and so on; then let it end."""

    path: tuple[int, ...]
    names: tuple[str, ...]
    verdict: Verdict
    processes: int = field(default=0, compare=False)

    @property
    def id(self) -> str:
        """Names it so that it can be run again: `8-accepted:comment.3-renamed`."""
        return id_of(self.path, self.names)


def id_of(path: Sequence[int], names: Sequence[str]) -> str:
    """The id of the scenario that crashes at these points."""
    return ".".join(f"{n}-{_in_id(name)}" for n, name in zip(path, names, strict=True))


def _in_id(name: str) -> str:
    """A point's name without what would read as the next number, or does not show on a line."""
    clear = re.sub(r"\.(?=\d+-)", "%2E", name.replace("%", "%25"))
    return "".join(c if c.isprintable() and c != " " else f"%{ord(c):02X}" for c in clear)


def kind_of(name: str) -> str:
    """The kind of a point from its name, `kind` or `kind:what`."""
    return name.partition(":")[0]
