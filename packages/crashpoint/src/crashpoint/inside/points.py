"""Points that a program announces itself: `point("reply")`.

Nobody listens in production, and a point costs a comparison there. Under a sweep the listener is a
crasher in the same process, which counts and raises `Crash`, or a socket with a controller behind
it. Standard library only, any Python >= 3.9.
"""

from __future__ import annotations

import os
import sys
from types import FrameType
from typing import Any, Protocol

from crashpoint.inside import client

__all__ = [
    "CHANGES",
    "Crash",
    "Listener",
    "allow",
    "calls_in",
    "current",
    "heard",
    "listen",
    "place",
    "point",
]

CHANGES = ("charge", "refund", "file", "comment")
"""The operations that change a receiver."""
_IDS = ("id", "call_id", "tool_call_id", "call")
_OPS = ("op", "operation", "tool", "tool_name", "name", "function")

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_PYTHON = os.path.dirname(os.path.abspath(os.__file__)) + os.sep


class Crash(BaseException):
    """This process is dead. No `except Exception` catches it, and what it does later is undone."""


class Listener(Protocol):
    """Somebody who wants to know where the program is."""

    def reached(self, name: str) -> None:
        """A point is reached. May raise Crash, and may never return."""

    def allow(self) -> None:
        """Something that lasts is about to be done; raises Crash in a process that is dead."""


class _Socket:
    """Announces each point to the controller and waits for its word."""

    def reached(self, name: str) -> None:
        client.reach(name, place() if "CRASHPOINT_PLACES" in os.environ else "")

    def allow(self) -> None:
        """A process that a controller killed asks nothing."""


_listener: Listener | None = _Socket() if "CRASHPOINT_POINTS" in os.environ else None


def point(kind: str, name: str = "") -> None:
    """Announce that this place is reached: which kind of moment and, where it helps, of what."""
    if _listener is not None:
        _listener.reached(f"{kind}:{name}" if name else kind)


def heard(reply: Any) -> None:
    """Tell what a scripted model has answered."""
    listening = getattr(_listener, "heard", None)
    if listening is not None:
        listening(reply)


def calls_in(reply: Any) -> list[tuple[str, str]]:
    """Id and operation of each call in a reply that changes a receiver, where the two are plain.

    A call is an object with both, or a list that begins with them; any other reply has none.
    """
    found = []
    if isinstance(reply, dict):
        ids = [reply[name] for name in _IDS if isinstance(reply.get(name), str)]
        ops = [reply[name] for name in _OPS if reply.get(name) in CHANGES]
        if ids and ops:
            return [(ids[0], ops[0])]
        for value in reply.values():
            found += calls_in(value)
    elif isinstance(reply, (list, tuple)):
        if len(reply) > 1 and isinstance(reply[0], str) and reply[1] in CHANGES:
            return [(reply[0], reply[1])]
        for value in reply:
            found += calls_in(value)
    return found


def allow() -> None:
    """Call before anything that outlives the process: a dead one raises Crash here instead."""
    if _listener is not None:
        _listener.allow()


def current() -> Listener | None:
    """Who listens now."""
    return _listener


def place() -> str:
    """Where the program stands, as `file:line function`: the nearest frame of its own code.

    That is one which is neither ours, nor Python's library, nor an installed package's; failing
    that, the nearest that is not ours.
    """
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  there is no public way
    nearest = ""
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_OURS):
            here = f"{file}:{frame.f_lineno} {frame.f_code.co_name}"
            if not file.startswith((_PYTHON, "<frozen ")) and "-packages" + os.sep not in file:
                return here
            nearest = nearest or here
        frame = frame.f_back
    return nearest


def listen(listener: Listener | None) -> Listener | None:
    """Set who listens in this process and return who did before."""
    global _listener
    before, _listener = _listener, listener
    return before
