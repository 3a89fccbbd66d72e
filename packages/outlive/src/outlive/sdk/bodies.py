"""The bodies of one run's steps, on the real loop or in a thread, and what came of them.

A body that runs is never taken for ended: while one does, its run neither finishes nor sleeps, and
a step whose time is over in a thread is not tried again before that thread came back.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import math
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from outlive.sdk.calls import ASKED, ATTEMPT, ENDED, RETRYING, Attempt, Call, StepCall
from outlive.wire.native_v1 import Ask, Done, Finish, Park, Suspend, Tried
from outlive.wire.values import Codec, NotStorable, StepFailed

if TYPE_CHECKING:
    from concurrent.futures import Executor

__all__ = ["Bodies", "Host", "Said", "Send", "is_async"]

Said = Done | Tried | Ask | Suspend | Finish | Park
Send = Callable[[Said], None]

_COROUTINE: Final = inspect.CO_COROUTINE | inspect.CO_ITERABLE_COROUTINE


class Host(Protocol):
    """What a driver needs from the process it is in, so that a simulation can be that process."""

    loop: asyncio.AbstractEventLoop
    """Where bodies run and timers stand."""
    threads: Executor
    """Where `def` bodies run."""
    beat: int
    """The number of the last beat."""
    draining: bool
    """Whether no new body may start."""

    def now_ms(self) -> int:
        """The engine's time, or a little before it: milliseconds since 1970."""
        ...

    def started(self, attempt: Attempt) -> None:
        """A body begins; said with the next frame if it has not ended by then."""
        ...

    def ended(self) -> None:
        """A body ended."""
        ...


class Bodies:
    """What runs for a run. `wanted`, `settled` and `retry` are of classes below."""

    __slots__ = ("bodies", "codec", "dropped", "epoch", "host", "owed", "run", "send", "starts")

    def __init__(self, run: str, epoch: int, codec: Codec, send: Send, host: Host) -> None:
        self.run = run
        self.epoch = epoch
        self.codec = codec
        self.send = send
        self.host = host
        self.dropped = False
        self.bodies: set[Attempt] = set()
        """What runs now."""
        self.owed = 0
        """Messages about calls that were sent and have no entry yet."""
        self.starts = 0
        """Bodies that began under this epoch."""

    def wanted(self, call: Call) -> bool:
        """Whether the code still waits for it."""
        raise NotImplementedError

    def settled(self) -> None:
        """A body ended and nothing was sent."""
        raise NotImplementedError

    def retry(self, call: StepCall) -> None:
        """A body ended late, and its step may be tried again."""
        raise NotImplementedError

    def say(self, call: Call, message: Done | Tried | Ask) -> None:
        """Send what an entry will answer, now and with later beats until it does."""
        if call.message is None:
            self.owed += 1
        call.message = message
        call.sent = self.host.beat
        self.send(message)

    def begin(self, call: StepCall) -> None:
        """Start the body of a step."""
        self.starts += 1
        attempt = Attempt(self.run, call, self.epoch, self.starts)
        call.state = ASKED
        call.body = attempt
        self.bodies.add(attempt)
        host = self.host
        host.started(attempt)
        context = call.context if attempt.number == 1 else call.context.copy()
        if is_async(call.fn):
            attempt.task = host.loop.create_task(self._run(attempt, call), context=context)
        else:
            host.threads.submit(self._in_thread, attempt, call, context)
        if call.timeout_s is not None:
            attempt.timer = host.loop.call_later(call.timeout_s, self._late, attempt)

    def stop_bodies(self) -> None:
        """Cancel what can be cancelled, and listen to none of it any more."""
        self.dropped = True
        bodies, self.bodies = self.bodies, set()
        for attempt in bodies:
            attempt.dropped = True
            if attempt.timer is not None:
                attempt.timer.cancel()
            if attempt.task is not None:
                attempt.task.cancel()

    # --- running -------------------------------------------------------------------------------

    async def _run(self, attempt: Attempt, call: StepCall) -> None:
        ATTEMPT.set(attempt)
        try:
            value = await call.fn(*call.args, **call.kwargs)
        except BaseException as error:  # noqa: BLE001  whatever a body lets out fails its step alone
            self._raised(attempt, error)
        else:
            self._returned(attempt, value)

    def _in_thread(self, attempt: Attempt, call: StepCall, context: contextvars.Context) -> None:
        value: Any = None
        raised: BaseException | None = None
        if not attempt.dropped:
            try:
                value = context.run(_with_attempt, attempt, call)
            except BaseException as error:  # noqa: BLE001  as above
                raised = error
        try:
            self.host.loop.call_soon_threadsafe(self._from_thread, attempt, context, value, raised)
        except RuntimeError:
            return  # the loop is closed: nobody waits for this any more

    def _from_thread(
        self,
        attempt: Attempt,
        context: contextvars.Context,
        value: Any,
        raised: BaseException | None,
    ) -> None:
        if raised is not None:
            self._raised(attempt, raised)
        elif not attempt.dropped and inspect.isawaitable(value):
            # `lambda: fetch(url)`: what it made is awaited where it belongs.
            attempt.task = self.host.loop.create_task(
                self._await(attempt, value), context=context.copy()
            )
        else:
            self._returned(attempt, value)

    async def _await(self, attempt: Attempt, awaitable: Awaitable[Any]) -> None:
        try:
            value = await awaitable
        except BaseException as error:  # noqa: BLE001  as above
            self._raised(attempt, error)
        else:
            self._returned(attempt, value)

    # --- what came of it -----------------------------------------------------------------------

    def _returned(self, attempt: Attempt, value: Any) -> None:
        if attempt.dropped:
            return
        refused, encoded = False, b""
        if not attempt.late:
            try:
                encoded = self.codec.encode(value, "result")
            except Exception as error:  # noqa: BLE001  a value's own fields may raise anything
                refused = True
                encoded = self.error_bytes(
                    error if isinstance(error, NotStorable) else NotStorable(f"result: {error!r}")
                )
        if self._close(attempt):
            self.say(
                attempt.call,
                Done(
                    self.run,
                    self.epoch,
                    attempt.call.name,
                    attempt.number,
                    not refused,
                    encoded,
                    refused,
                ),
            )

    def _raised(self, attempt: Attempt, error: BaseException) -> None:
        if attempt.dropped:
            return
        if attempt.overdue and isinstance(error, asyncio.CancelledError):
            error = _timeout(attempt)
        if self._close(attempt):
            self._failed(attempt, error)

    def _close(self, attempt: Attempt) -> bool:
        """Take note that a body ended; whether what came of it counts."""
        attempt.ended = True
        self.bodies.discard(attempt)
        call = attempt.call
        call.body = None
        if attempt.timer is not None:
            attempt.timer.cancel()
        self.host.ended()
        if not attempt.late and call.state != ENDED:
            return True
        if call.state == RETRYING:
            self.retry(call)
        self.settled()
        return False

    def _failed(self, attempt: Attempt, error: BaseException) -> None:
        call = attempt.call
        number = attempt.number
        encoded = self.error_bytes(error)
        # Nobody waits for the result of an abandoned call, so that another try would serve no one.
        if call.retry.again(number, error) and self.wanted(call):
            again_ms = self.host.now_ms() + math.ceil(call.retry.delay_s(number) * 1000)
            self.say(call, Tried(self.run, self.epoch, call.name, number, encoded, again_ms))
        else:
            self.say(call, Done(self.run, self.epoch, call.name, number, False, encoded))

    def _late(self, attempt: Attempt) -> None:
        if attempt.ended or attempt.dropped:
            return
        if attempt.task is not None:
            attempt.overdue = True
            attempt.task.cancel()
            return
        # A thread cannot be stopped: the step fails now and its body counts as running.
        attempt.late = True
        if attempt.call.state != ENDED:
            self._failed(attempt, _timeout(attempt))

    def error_bytes(self, error: BaseException) -> bytes:
        """An error, encoded whatever it is."""
        try:
            return self.codec.encode_error(error)
        except Exception:  # noqa: BLE001  an error whose own text cannot be had
            kind = type(error)
            return self.codec.encode_error(
                StepFailed(f"{kind.__module__}:{kind.__qualname__}", "it cannot be shown")
            )


def is_async(fn: Any) -> bool:
    """Whether calling it makes a coroutine."""
    code = getattr(fn, "__code__", None)
    if code is not None and code.co_flags & _COROUTINE:
        return True
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(type(fn).__call__)


def _with_attempt(attempt: Attempt, call: StepCall) -> Any:
    ATTEMPT.set(attempt)
    return call.fn(*call.args, **call.kwargs)


def _timeout(attempt: Attempt) -> TimeoutError:
    call = attempt.call
    return TimeoutError(f"step {call.name} took longer than {call.timeout_s:g} s")
