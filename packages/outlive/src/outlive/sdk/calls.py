"""A call that workflow code made, and one attempt at its body."""

from __future__ import annotations

import asyncio
import contextvars
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from outlive.core.keys import effect_key
from outlive.sdk.errors import BadStepId, NotInStep
from outlive.wire.native_v1 import Ask, Done, Entry, Tried

if TYPE_CHECKING:
    from outlive.sdk.retry import Retry

__all__ = [
    "ASKED",
    "ENDED",
    "FENCE_BITS",
    "NEW",
    "OPEN",
    "REFUSED",
    "RETRYING",
    "STEP",
    "AskCall",
    "Attempt",
    "Call",
    "StepCall",
    "checked_id",
    "current",
]

NEW, ASKED, OPEN, RETRYING, REFUSED, ENDED = range(6)
"""Made; under way and not recorded; recorded as waiting; recorded as failed and to be tried again;
recorded as not storable; over."""

STEP: Final = "step"
"""The kind of a call that has a body. The others are kinds of `outlive.wire.asks`."""

FENCE_BITS: Final = 20
"""How many bits of a fence count the bodies of one epoch."""

_ID: Final = re.compile(r"[^#!\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,200}")


def checked_id(step: object) -> str:
    """The id, or BadStepId."""
    if isinstance(step, str) and _ID.fullmatch(step) is not None:
        return step
    raise BadStepId(
        f"step id {repr(step)[:300]}: 1 to 200 characters, without '#', '!' and control characters"
    )


class Call:
    """What code asked for. `future` is what the code awaits, on the loop of its run."""

    __slots__ = ("attempt", "body", "future", "kind", "message", "name", "sent", "state")

    kind: str
    """STEP, or a kind of `outlive.wire.asks`."""
    state: int
    attempt: int
    """The last attempt that is recorded as failed."""
    message: Done | Tried | Ask | None
    """What was sent and has no entry yet."""
    sent: int
    """The number of the last beat when it was."""
    body: Attempt | None

    def __init__(self, name: str, kind: str, future: asyncio.Future[Any]) -> None:
        self.name = name
        self.kind = kind
        self.future = future
        self.state = NEW
        self.attempt = 0
        self.message = None
        self.sent = 0
        self.body = None


class StepCall(Call):
    """A call with a body; `fn` and what it is given are never stored."""

    __slots__ = ("again_ms", "args", "context", "error", "fn", "kwargs", "retry", "timeout_s")

    def __init__(  # noqa: PLR0917  keywords cost time, and one place calls it
        self,
        name: str,
        future: asyncio.Future[Any],
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        retry: Retry,
        timeout_s: float | None,
    ) -> None:
        # As in Call, without the cost of a second call.
        self.name = name
        self.kind = STEP
        self.future = future
        self.state = NEW
        self.attempt = 0
        self.message = None
        self.sent = 0
        self.body = None
        self.fn = fn
        self.args = args
        self.kwargs = kwargs
        self.retry = retry
        self.timeout_s = timeout_s
        self.again_ms = 0
        """When the next attempt may begin: the engine's milliseconds since 1970."""
        self.error = b""
        """What the last attempt that is recorded as failed raised, encoded."""
        self.context = contextvars.copy_context()


class AskCall(Call):
    """A call that the engine meets; `read` makes of its entry what code gets."""

    __slots__ = ("about", "read")

    def __init__(
        self,
        name: str,
        kind: str,
        future: asyncio.Future[Any],
        about: bytes,
        read: Callable[[Entry], Any],
    ) -> None:
        super().__init__(name, kind, future)
        self.about = about
        self.read = read


class Attempt:
    """One attempt at a step, as its body sees it through `outlive.current()`."""

    __slots__ = (
        "_key",
        "call",
        "dropped",
        "ended",
        "epoch",
        "late",
        "number",
        "overdue",
        "run_id",
        "start",
        "task",
        "timer",
    )

    def __init__(self, run_id: str, call: StepCall, epoch: int, start: int) -> None:
        self.run_id = run_id
        self.call = call
        self.number = call.attempt + 1
        """1 for the first attempt."""
        self.epoch = epoch
        self.start = start
        """How many bodies began under this epoch, with this one."""
        self.ended = False
        self.dropped = False
        """The run is another's: nobody waits for what it returns."""
        self.overdue = False
        """Its time is over, and it was told to stop."""
        self.late = False
        """Its time is over, and the engine was told so."""
        self.task: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self._key = ""

    def __repr__(self) -> str:
        return f"<attempt {self.number} at {self.call.name!r} of run {self.run_id!r}>"

    @property
    def step(self) -> str:
        """The step's id."""
        return self.call.name.partition("#")[0]

    @property
    def fence(self) -> int:
        """Greater than in every earlier attempt of this run, whoever made it."""
        return self.epoch << FENCE_BITS | min(self.start, (1 << FENCE_BITS) - 1)

    @property
    def key(self) -> str:
        """The idempotency key: the same in every attempt at this call, and in no other call."""
        if not self._key:
            self._key = effect_key(self.run_id, self.call.name)
        return self._key


ATTEMPT: Final[contextvars.ContextVar[Attempt]] = contextvars.ContextVar("outlive_attempt")


def current() -> Attempt:
    """The attempt that this code is the body of; raises NotInStep elsewhere."""
    found = ATTEMPT.get(None)
    if found is None:
        raise NotInStep("no step runs here: key, fence and current() are for the body of a step")
    return found
