"""One thread for what waits for the disk.

A thread pool would do, and costs 0.08 ms more a call, on the way of every step to its
acknowledgement.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["DiskThread"]

T = TypeVar("T")
_Todo = tuple[Callable[..., Any], tuple[Any, ...], asyncio.Future[Any] | None]


class DiskThread:
    """Makes calls one after another, in the order in which they were given."""

    def __init__(self, name: str) -> None:
        self._todo: queue.SimpleQueue[_Todo | None] = queue.SimpleQueue()
        # A daemon: a store that nobody closed does not keep its process.
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    async def call(self, call: Callable[..., T], *args: Any) -> T:
        """Have it called; what it returned or raised. It is called even if this is cancelled."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._todo.put((call, args, future))
        return await future

    def leave(self, call: Callable[..., object], *args: Any) -> None:
        """Have it called after all else, and nobody told."""
        self._todo.put((call, args, None))

    def end(self) -> None:
        """Wait until everything was called; nothing can be given any more."""
        self._todo.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (todo := self._todo.get()) is not None:
            call, args, future = todo
            value: Any = None
            raised: BaseException | None = None
            try:
                value = call(*args)
            except BaseException as error:  # noqa: BLE001  it is the caller's, in the other thread
                raised = error
            if future is not None:
                with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
                    future.get_loop().call_soon_threadsafe(_settle, future, value, raised)
            del todo, args, future, value, raised  # or they would live until the next call


def _settle(future: asyncio.Future[Any], value: Any, raised: BaseException | None) -> None:
    if future.done():
        return
    if raised is None:
        future.set_result(value)
    else:
        future.set_exception(raised)
