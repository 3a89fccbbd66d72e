"""The code of one run on its own loop: what it asks for, and how it ended."""

from __future__ import annotations

import asyncio
import logging
import random
from asyncio.events import _get_running_loop
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from outlive.core.keys import call_name
from outlive.sdk.bodies import Bodies, Host, Send
from outlive.sdk.calls import STEP, AskCall, Call, StepCall
from outlive.sdk.context import Context
from outlive.sdk.drift import Traced, given, user_line
from outlive.sdk.errors import Dropped, NotDeterministic
from outlive.sdk.loop import WorkflowLoop
from outlive.wire import asks
from outlive.wire.native_v1 import Dispatch, Entry
from outlive.wire.values import Codec, NotRestorable, StepFailed

if TYPE_CHECKING:
    from outlive.sdk.app import Workflow
    from outlive.sdk.retry import Retry

__all__ = ["CLEAN_UP_MAX", "Program"]

_log = logging.getLogger("outlive.sdk")

CLEAN_UP_MAX: Final = 32
"""Calls that code may make after a cancel; with the next one it is ended."""


class Program(Bodies):
    """Workflow code: it goes on whenever `workflow_loop` is run until quiescent."""

    __slots__ = (
        "_clean_up",
        "_random",
        "at_ms",
        "calls",
        "cancelled",
        "counts",
        "default_retry",
        "delivered",
        "flow",
        "fresh",
        "last_seq",
        "main",
        "outcome",
        "shadow",
        "trace",
        "tracing",
        "unrestorable",
        "workflow_loop",
    )

    def __init__(
        self,
        flow: Workflow[Any, Any],
        dispatch: Dispatch,
        *,
        codec: Codec,
        retry: Retry,
        send: Send,
        host: Host,
        tracing: bool,
        shadow: bool,
    ) -> None:
        super().__init__(dispatch.run, dispatch.epoch, codec, send, host)
        self.flow = flow
        self.default_retry = retry
        self.last_seq = dispatch.last_seq
        self.delivered = 0
        """The last entry that the code has seen."""
        self.at_ms = dispatch.started_ms
        self.calls: dict[str, Call] = {}
        """What the code has asked for and no entry has ended."""
        self.counts: dict[str, int] = {}
        """How often each id was used."""
        self.fresh: list[Call] = []
        """What the code asked for and was not started."""
        self.trace: list[Traced] = []
        """The calls that the code made, in order, if `tracing`."""
        self.tracing = tracing
        self.shadow = shadow
        """Whether this only replays, to compare."""
        self.cancelled = False
        self.outcome: tuple[str, bytes] | None = None
        """How the code ended, and the encoded result or error."""
        self.unrestorable = ""
        """Why the code could not begin."""
        self._random: random.Random | None = None
        self._clean_up = 0
        self.workflow_loop = WorkflowLoop()  # type: ignore[abstract]
        self.workflow_loop.now_s = dispatch.started_ms / 1000
        self.main = self.workflow_loop.create_task(self._program(dispatch.input))

    def wanted(self, call: Call) -> bool:
        """Whether the code still waits for it."""
        return self.outcome is None and not call.future.done()

    def close(self) -> None:
        """End the code where it stands: the run is another's, or over."""
        self.workflow_loop.close()
        self.fresh.clear()

    @property
    def replaying(self) -> bool:
        """Whether the code is where it has been before."""
        return self.delivered < self.last_seq or self.shadow

    @property
    def random(self) -> random.Random:
        """Seeded from the run's id."""
        if self._random is None:
            self._random = random.Random(self.run)
        return self._random

    def fail(self, future: asyncio.Future[Any], error: BaseException) -> None:
        """Raise it where the code awaits."""
        if isinstance(error, StopIteration):
            # No future can hold one.
            error = StepFailed("StopIteration", str(error))
        future.set_exception(error)

    def cancel(self) -> None:
        """Cancel what the code awaits."""
        self.cancelled = True
        if not self.main.done():
            self.main.cancel()

    # --- what code calls -----------------------------------------------------------------------

    async def step(  # noqa: PLR0917  as StepCall's
        self,
        step: str,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        retry: Retry | None,
        timeout_s: float | None,
        line: str,
    ) -> Any:
        """Call `STEP#N` with a body."""
        name = self._name(step)
        call = StepCall(
            name,
            asyncio.Future(loop=self.workflow_loop),
            fn,
            args,
            kwargs,
            self.default_retry if retry is None else retry,
            timeout_s,
        )
        self.calls[name] = call
        self.fresh.append(call)
        if self.tracing:
            self.trace.append(Traced(name, STEP, given(self.codec, args, kwargs), line))
        return await call.future

    async def ask(
        self,
        step: str,
        kind: str,
        about: asks.What | Callable[[str], asks.What],
        read: Callable[[Entry], Any],
        line: str,
    ) -> Any:
        """Call `STEP#N` that the engine meets."""
        name = self._name(step)
        what = about(name) if callable(about) else about
        call = AskCall(
            name, kind, asyncio.Future(loop=self.workflow_loop), msgspec.msgpack.encode(what), read
        )
        self.calls[name] = call
        self.fresh.append(call)
        if self.tracing:
            self.trace.append(Traced(name, kind, call.about, line))
        return await call.future

    def line(self) -> str:
        """`file:line` of the code that calls this through `Steps`."""
        return user_line(self.flow)

    def _name(self, step: str) -> str:
        if _get_running_loop() is not self.workflow_loop:
            if self.dropped:
                raise Dropped(self.run)
            raise NotDeterministic(
                f"ctx.step {step!r} is used outside of its workflow's own code: steps are not "
                "nested, so call the function itself"
            )
        if self.cancelled:
            if self._clean_up == CLEAN_UP_MAX:
                self._end("cancelled", self.codec.encode(None))
                # No CancelledError: code that catches one in a loop would go round for ever.
                raise Dropped(f"more than {CLEAN_UP_MAX} steps after a cancel")
            self._clean_up += 1
        number = self.counts.get(step, 0)
        self.counts[step] = number + 1
        return call_name(step, number)

    # --- the program ---------------------------------------------------------------------------

    async def _program(self, data: bytes) -> None:
        flow = self.flow
        try:
            given = self.codec.decode(data)
        except NotRestorable as error:
            self.unrestorable = f"the input of the run: {error}"
            return
        ctx = Context(self)
        try:
            result = await (flow(ctx, given) if flow.takes_input else flow(ctx))
            self._end("completed", self.codec.encode(result, f"the result of {flow.name!r}"))
        except (GeneratorExit, Dropped):
            raise
        except BaseException as error:  # noqa: BLE001  a run fails with whatever its code let out
            if self.cancelled and isinstance(error, asyncio.CancelledError):
                self._end("cancelled", self.codec.encode(None))
                return
            failure = self.error_bytes(error)
            if flow.failure is not None and not self.cancelled:
                await self._handle(flow.failure, error)
            self._end("failed", failure)

    async def _handle(self, failure: Callable[..., Any], error: BaseException) -> None:
        ctx = Context(self, "on_failure:")
        try:
            await failure(ctx, error)
        except (GeneratorExit, Dropped):
            raise
        except BaseException:  # noqa: BLE001  the run fails with the first error
            if not self.replaying:
                _log.warning("on_failure of %r failed", self.flow.name, exc_info=True)

    def _end(self, outcome: str, value: bytes) -> None:
        if self.outcome is None:
            self.outcome = (outcome, value)
