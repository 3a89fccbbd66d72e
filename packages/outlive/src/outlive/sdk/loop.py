"""The event loop that workflow code runs on: first in, first out, and no clock or I/O of its own.

Tasks, futures, gather, TaskGroup, asyncio.wait, Event, Queue and Lock
work on it and go on in the same order on every pass; whatever would not is an error that names the
remedy.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import sys
import weakref
from asyncio.events import _get_running_loop, _set_running_loop
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Final, NoReturn, TypeVar

from outlive.sdk.errors import NeverQuiescent, NotDeterministic

__all__ = ["CALLBACKS_MAX", "WorkflowLoop"]

T = TypeVar("T")
CALLBACKS_MAX: Final = 250_000
"""Callbacks between two entries, after which code counts as never quiescent."""

_log = logging.getLogger("outlive.sdk")


class _Callback(asyncio.Handle):
    """A handle without the debugging of its base, which costs more than the callback."""

    __slots__ = ()

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: contextvars.Context | None,
    ) -> None:
        self._callback = callback
        self._args = args
        self._context = contextvars.copy_context() if context is None else context
        self._cancelled = False

    def __repr__(self) -> str:
        return f"<callback {self._callback!r}>"

    def cancel(self) -> None:
        """Do not run."""
        self._cancelled = True

    def run(self) -> None:
        """Run, unless cancelled."""
        if not self._cancelled:
            self._context.run(self._callback, *self._args)


class WorkflowLoop(asyncio.AbstractEventLoop):
    """The loop of one run; `run_until_quiescent` is called from a plain callback of a real loop."""

    def __init__(self, *, callbacks_max: int = CALLBACKS_MAX) -> None:
        self.ready: deque[_Callback] = deque()
        """What goes on at the next `run_until_quiescent`; empty: quiescent."""
        self.now_s = 0.0
        """What `time()` says: seconds since 1970 of the last entry."""
        self._callbacks_max = callbacks_max
        self._running = False
        self._closed = False
        self._tasks: weakref.WeakSet[asyncio.Task[Any]] = weakref.WeakSet()

    def run_until_quiescent(self) -> None:
        """Go on until nothing can; raises NeverQuiescent if that does not come."""
        ready = self.ready
        if not ready:
            return
        outer = _get_running_loop()
        hooks = sys.get_asyncgen_hooks()
        # Else an async generator dropped by workflow code would be closed on the outer loop.
        sys.set_asyncgen_hooks(None, None)
        _set_running_loop(self)
        self._running = True
        left = self._callbacks_max
        try:
            while ready:
                handle = ready.popleft()
                left -= 1
                if left < 0:
                    raise NeverQuiescent(
                        f"the code went on {self._callbacks_max:,} times without waiting for a "
                        "step: is there a loop around asyncio.sleep(0)?"
                    )
                try:
                    handle.run()
                except BaseException as error:  # noqa: BLE001  its task keeps it
                    self._odd("a callback of workflow code failed", error)
        finally:
            self._running = False
            _set_running_loop(outer)
            sys.set_asyncgen_hooks(*hooks)

    def close(self) -> None:
        """Close what code is left: `finally` blocks run, and nothing goes on after them."""
        if self._closed:
            return
        self._closed = True
        self.ready.clear()
        for task in list(self._tasks):
            coroutine = task.get_coro()
            if not task.done() and coroutine is not None:
                _shut(coroutine)
        self.ready.clear()

    # --- what asyncio's own classes need -------------------------------------------------------

    def call_soon(  # type: ignore[override]
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        """Run the callback at the next turn; see asyncio."""
        handle = _Callback(callback, args, context)
        if not self._closed:
            self.ready.append(handle)
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        """See asyncio."""
        return asyncio.Future(loop=self)

    def create_task(
        self, coro: Generator[Any, None, T] | Coroutine[Any, Any, T], **options: Any
    ) -> asyncio.Task[T]:
        """See asyncio."""
        task: asyncio.Task[T] = asyncio.Task(coro, loop=self, **options)
        self._tasks.add(task)
        return task

    def time(self) -> float:
        """The time of the last entry: seconds since 1970."""
        return self.now_s

    def get_debug(self) -> bool:
        """False."""
        return False

    def set_debug(self, enabled: bool) -> None:  # noqa: FBT001  asyncio's signature
        """Ignored."""

    def is_running(self) -> bool:
        """See asyncio."""
        return self._running

    def is_closed(self) -> bool:
        """See asyncio."""
        return self._closed

    def get_task_factory(self) -> None:
        """There is none."""

    def get_exception_handler(self) -> None:
        """There is none."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Log it; see asyncio."""
        self._odd(str(context.get("message")), context.get("exception"))

    def _odd(self, message: str, error: BaseException | None) -> None:
        if not self._closed and not isinstance(error, SystemExit | KeyboardInterrupt):
            _log.error("%s: %r", message, error, exc_info=error)


def _shut(coroutine: Any) -> None:
    try:
        coroutine.close()
    except BaseException as error:  # noqa: BLE001  the run is gone: nobody is left to be told
        _log.debug("closing workflow code: %r", error)


_STEP: Final = "do it in a step: await ctx.step.run(...)"
_REMEDIES: Final = {
    "call_later": "await ctx.step.sleep(...), or timeout= of a step or wait",
    "call_at": "await ctx.step.sleep(...), or timeout= of a step or wait",
    "call_soon_threadsafe": _STEP,
    "run_in_executor": "a `def` step runs in a thread: await ctx.step.run(...)",
    "set_default_executor": "a `def` step runs in a thread: await ctx.step.run(...)",
    "add_signal_handler": "the runner handles signals",
    "remove_signal_handler": "the runner handles signals",
    "set_exception_handler": "catch the exception in the workflow",
    "default_exception_handler": "catch the exception in the workflow",
    "set_task_factory": "use asyncio.create_task",
    "run_forever": "await in the workflow",
    "run_until_complete": "await in the workflow",
    "stop": "return from the workflow",
    "shutdown_asyncgens": "the runner ends the loop",
    "shutdown_default_executor": "the runner ends the loop",
}
_INPUT_OUTPUT: Final = (
    "add_reader add_writer connect_accepted_socket connect_read_pipe connect_write_pipe "
    "create_connection create_datagram_endpoint create_server create_unix_connection "
    "create_unix_server getaddrinfo getnameinfo remove_reader remove_writer sendfile sock_accept "
    "sock_connect sock_recv sock_recv_into sock_recvfrom sock_recvfrom_into sock_sendall "
    "sock_sendfile sock_sendto start_tls subprocess_exec subprocess_shell"
)
_NAMES: Final = {
    "call_later": "asyncio.sleep, timeout and wait_for (loop.call_later)",
    "call_at": "asyncio.timeout and wait_for (loop.call_at)",
    "run_in_executor": "asyncio.to_thread (loop.run_in_executor)",
}


def _refusal(name: str, remedy: str) -> Callable[..., NoReturn]:
    what = _NAMES.get(name, f"loop.{name}")

    def refuse(self: WorkflowLoop, *_args: Any, **_options: Any) -> NoReturn:  # noqa: ARG001
        raise NotDeterministic(f"{what} outside a step would differ on replay; instead: {remedy}")

    refuse.__name__ = name
    return refuse


for _name in _INPUT_OUTPUT.split():
    _REMEDIES[_name] = _STEP
for _name, _remedy in _REMEDIES.items():
    setattr(WorkflowLoop, _name, _refusal(_name, _remedy))
