"""What workflow code is given: its run, deterministic sources, and steps."""

from __future__ import annotations

import datetime as dt
import hashlib
import logging
import random
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, ParamSpec, TypeVar, overload

from outlive.core.keys import effect_key
from outlive.sdk.app import Workflow
from outlive.sdk.calls import checked_id, current
from outlive.sdk.durations import Duration, milliseconds, seconds
from outlive.sdk.retry import Retry
from outlive.wire import asks

if TYPE_CHECKING:
    from outlive.sdk.program import Program
    from outlive.wire.native_v1 import Entry

__all__ = ["Approved", "Context", "Event", "Steps"]

P = ParamSpec("P")
T = TypeVar("T")
I = TypeVar("I")  # noqa: E741

_EPOCH: Final = dt.datetime.fromtimestamp(0, dt.UTC)
_logger = logging.getLogger("outlive.run")


@dataclass(frozen=True)
class Event:
    """An event that a run waited for."""

    name: str
    id: str
    data: Any


@dataclass(frozen=True)
class Approved:
    """What a person decided: `approved` says yes or no."""

    approved: bool
    by: str
    comment: str


class Context:
    """A run, for its code. Everything here says the same on every replay."""

    __slots__ = ("_driver", "_log", "step")

    def __init__(self, driver: Program, prefix: str = "") -> None:
        self._driver = driver
        self._log: logging.LoggerAdapter[logging.Logger] | None = None
        self.step: Steps = Steps(driver, prefix)
        """Steps and waits."""

    @property
    def run_id(self) -> str:
        """The id of this run."""
        return self._driver.run

    @property
    def now(self) -> dt.datetime:
        """UTC, to the millisecond: when the last thing happened that this code has seen."""
        return _EPOCH + dt.timedelta(milliseconds=self._driver.at_ms)

    @property
    def random(self) -> random.Random:
        """A generator seeded from the run's id; share it, since each use moves it on."""
        return self._driver.random

    def uuid4(self) -> uuid.UUID:
        """A UUID that is the same on every replay; it is no secret."""
        return uuid.UUID(int=self._driver.random.getrandbits(128), version=4)

    @property
    def key(self) -> str:
        """In a step: the idempotency key to send with an effect. Raises NotInStep elsewhere."""
        return current().key

    @property
    def fence(self) -> int:
        """In a step: a number that grows with each attempt. Raises NotInStep elsewhere."""
        return current().fence

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger that names the run, and is silent about what was said before a replay."""
        if self._log is None:
            self._log = _RunLog(self._driver)
        return self._log


class _RunLog(logging.LoggerAdapter[logging.Logger]):
    def __init__(self, driver: Program) -> None:
        super().__init__(_logger, {"run_id": driver.run})
        self._driver = driver

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802  logging's name
        return not self._driver.replaying and super().isEnabledFor(level)

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["extra"] = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return msg, kwargs


class Steps:
    """Units of work and waits, each recorded once under its id.

    `step` is that id. It may be used again, in a loop say: uses are then told apart by their order.
    What these return is awaited; until then nothing happens. Raises BadStepId for an id that is
    empty, longer than 200 characters, or has '#', '!' or control characters in it.
    """

    __slots__ = ("_driver", "_prefix")

    def __init__(self, driver: Program, prefix: str = "") -> None:
        self._driver = driver
        self._prefix = prefix

    @overload
    def run(
        self,
        step: str,
        fn: Callable[..., Awaitable[T]],
        /,
        *args: Any,
        retry: Retry,
        timeout: Duration | None = None,
        **kwargs: Any,
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def run(
        self,
        step: str,
        fn: Callable[..., Awaitable[T]],
        /,
        *args: Any,
        retry: Retry | None = None,
        timeout: Duration,
        **kwargs: Any,
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def run(
        self,
        step: str,
        fn: Callable[..., T],
        /,
        *args: Any,
        retry: Retry,
        timeout: Duration | None = None,
        **kwargs: Any,
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def run(
        self,
        step: str,
        fn: Callable[..., T],
        /,
        *args: Any,
        retry: Retry | None = None,
        timeout: Duration,
        **kwargs: Any,
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def run(
        self, step: str, fn: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def run(
        self, step: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T]: ...

    def run(  # type: ignore[misc]  # `retry` and `timeout` are never those of `fn`
        self,
        step: str,
        fn: Callable[..., Any],
        /,
        *args: Any,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        **kwargs: Any,
    ) -> Coroutine[Any, Any, Any]:
        """What `fn(*args, **kwargs)` returned, once; a `def` runs in a thread.

        `retry` says how often it is tried, else the app's policy; `timeout` how long an attempt may
        take: then it failed with TimeoutError. A thread cannot be stopped, so that no other attempt
        begins before it ended. Raises what the last attempt raised: an error of a registered type
        as itself, any other as StepFailed. Both names belong to this method: to give them to `fn`,
        use functools.partial.
        """
        driver = self._driver
        if type(step) is not str or step not in driver.counts:
            checked_id(step)
        line = driver.line() if driver.tracing else ""
        timeout_s = None if timeout is None else seconds(timeout, f"timeout of step {step!r}")
        return driver.step(self._prefix + step, fn, args, kwargs, retry, timeout_s, line)

    def sleep(self, step: str, duration: Duration, /) -> Coroutine[Any, Any, None]:
        """Wait so long from when the engine has recorded it; needs no worker meanwhile."""
        about = asks.Sleep(for_ms=milliseconds(duration, f"duration of sleep {step!r}"))
        return self._ask(step, "sleep", about, _nothing)

    def sleep_until(self, step: str, when: dt.datetime, /) -> Coroutine[Any, Any, None]:
        """Wait until an instant; raises ValueError for a datetime without a time zone."""
        if when.tzinfo is None:
            raise ValueError(
                f"sleep_until {step!r}: {when!r} has no time zone; use datetime(..., tzinfo=UTC)"
            )
        until_ms = -((_EPOCH - when) // dt.timedelta(milliseconds=1))
        return self._ask(step, "sleep", asks.Sleep(until_ms=until_ms), _nothing)

    def wait_for_event(
        self,
        step: str,
        /,
        name: str,
        match: Mapping[str, Any] | None = None,
        timeout: Duration | None = None,
    ) -> Coroutine[Any, Any, Event | None]:
        """The first event of the name since the run began, each taken once; None: time ran out.

        `match` maps dotted paths in the event's data to the value that must stand there; raises
        NotStorable for a value that no event can hold.
        """
        codec = self._driver.codec
        about = asks.Event(
            name=name,
            match={
                path: codec.encode(value, f"match[{path!r}] of {step!r}")
                for path, value in (match or {}).items()
            },
            for_ms=None if timeout is None else milliseconds(timeout, f"timeout of {step!r}"),
        )

        def read(entry: Entry) -> Event | None:
            if not entry.ok:
                return None
            found = codec.decode(entry.value)
            return Event(found["name"], found["id"], found["data"])

        return self._ask(step, "event", about, read)

    def emit(
        self, step: str, /, name: str, data: Any = None, dedupe: str | None = None
    ) -> Coroutine[Any, Any, None]:
        """Send an event, once for its name and `dedupe` in the whole app.

        Without `dedupe` it is sent once by this call. Raises NotStorable for other data.
        """
        encoded = self._driver.codec.encode(data, f"data of event {name!r}")
        return self._ask(
            step,
            "emit",
            lambda call: asks.Emit(
                name=name,
                id=effect_key(self._driver.run, call) if dedupe is None else dedupe,
                data=encoded,
            ),
            _nothing,
        )

    @overload
    def run_workflow(
        self, step: str, workflow: Workflow[I, T], given: I, /, *, detached: Literal[False] = False
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def run_workflow(
        self, step: str, workflow: Workflow[None, T], /, *, detached: Literal[False] = False
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def run_workflow(
        self,
        step: str,
        workflow: Workflow[Any, Any] | str,
        given: Any = None,
        /,
        *,
        detached: Literal[True],
    ) -> Coroutine[Any, Any, str]: ...
    @overload
    def run_workflow(
        self, step: str, workflow: str, given: Any = None, /, *, detached: bool = False
    ) -> Coroutine[Any, Any, Any]: ...

    def run_workflow(
        self,
        step: str,
        workflow: Workflow[Any, Any] | str,
        given: Any = None,
        /,
        *,
        detached: bool = False,
    ) -> Coroutine[Any, Any, Any]:
        """The result of another run, started once; `detached`: its run id, without waiting.

        Raises what that run failed with. Cancelling this run cancels the other unless detached.
        """
        codec = self._driver.codec
        name = workflow if isinstance(workflow, str) else workflow.name
        about = asks.Child(
            workflow=name,
            input=codec.encode(given, f"input of workflow {name!r}"),
            detached=detached,
        )

        def read(entry: Entry) -> Any:
            if entry.ok:
                return codec.decode(entry.value)
            raise codec.decode_error(entry.value)

        return self._ask(step, "child", about, read)

    def approval(
        self, step: str, /, title: str, details: Any = None, timeout: Duration | None = None
    ) -> Coroutine[Any, Any, Approved | None]:
        """Ask a person; None: nobody decided in time.

        The answer is bound to exactly this title and these details. Raises NotStorable.
        """
        codec = self._driver.codec
        encoded = codec.encode(details, f"details of approval {step!r}")
        head = title.encode()
        framed = b"%d:%s%d:%s" % (len(head), head, len(encoded), encoded)
        about = asks.Approve(
            title=title,
            details=encoded,
            digest=hashlib.sha256(framed).hexdigest(),
            for_ms=None if timeout is None else milliseconds(timeout, f"timeout of {step!r}"),
        )

        def read(entry: Entry) -> Approved | None:
            if not entry.ok:
                return None
            found = codec.decode(entry.value)
            return Approved(found["approved"], found["by"], found["comment"])

        return self._ask(step, "approve", about, read)

    def _ask(
        self,
        step: str,
        kind: str,
        about: asks.What | Callable[[str], asks.What],
        read: Callable[[Entry], T],
    ) -> Coroutine[Any, Any, T]:
        driver = self._driver
        checked_id(step)
        line = driver.line() if driver.tracing else ""
        return driver.ask(self._prefix + step, kind, about, read, line)


def _nothing(_entry: Entry) -> None:
    return None
