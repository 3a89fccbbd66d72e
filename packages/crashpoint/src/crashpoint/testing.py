"""For programs that are swept, and their tests. Light: importable inside any subject.

A program announces moments with `point`, saves with its own means or a `FileStore`, and talks to
the world through `tracker()`, `payments()` and `person()`. `docs/sweep.md` walks through an
example.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Any

from crashpoint.inside.points import Crash, heard, point
from crashpoint.inside.store import FileStore
from crashpoint.receivers.client import (
    Payments,
    Person,
    ReceiverDown,
    ReceiverError,
    ReceiverRefused,
    ReceiverTimeout,
    Tracker,
)
from crashpoint.receivers.routes import payments, person, tracker

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "Crash",
    "FileStore",
    "Payments",
    "Person",
    "ReceiverDown",
    "ReceiverError",
    "ReceiverRefused",
    "ReceiverTimeout",
    "ScriptedModel",
    "Tracker",
    "call_key",
    "payments",
    "person",
    "point",
    "tracker",
]


if "CRASHPOINT_POINTS" in os.environ and "CRASHPOINT_STATE" in os.environ:
    # A command that is swept: its saves are points from here on, as they are in the other modes.
    from crashpoint.sweep.hooks import watching

    _watch = watching(os.environ["CRASHPOINT_STATE"])  # kept: it would undo itself when collected
    _watch.__enter__()


class ScriptedModel:
    """A model whose n-th reply depends on n alone; each passes the point `reply`."""

    def __init__(self, replies: Sequence[Any]) -> None:
        self._replies = replies

    def reply(self, n: int) -> Any:
        """The n-th reply, counted from 0; raises IndexError after the last."""
        answer = self._replies[n]
        heard(answer)
        point("reply")
        return answer


def call_key(run: str, call: str) -> str:
    """The idempotency key of one call of one run, 32 hex digits (the function of S3).

    Each id stands behind its length in UTF-8 bytes, so that no two pairs of ids share a key.
    """
    text = b"".join(b"%d:%s" % (len(raw), raw) for raw in (run.encode(), call.encode()))
    return hashlib.sha256(text).hexdigest()[:32]
