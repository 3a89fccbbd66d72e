"""The `fork` crasher: each process of a scenario is a fork of the warmed caller, killed by SIGKILL.

The child counts its points and stops at the one asked for; its parent kills it there. Files and
sockets are real; the import image and the hash seed are the parent's.
"""

from __future__ import annotations

import asyncio
import errno
import http.client  # noqa: F401  what every child would import is imported before they are forked
import inspect
import json
import os
import select
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Final, NoReturn, TextIO

from crashpoint.inside import points
from crashpoint.sweep.exits import Exits, exits
from crashpoint.sweep.hooks import Watch, watching
from crashpoint.sweep.runner import Order, how_it_ended, told
from crashpoint.sweep.words import DISCOVER, When

__all__ = ["ForkExecutor"]

CHUNK: Final = 1 << 16


class ForkExecutor:
    """Runs `start` and `resume`, functions of the state folder's path."""

    def __init__(self, start: Callable[[str], Any], resume: Callable[[str], Any]) -> None:
        self._entries = (start, resume)
        self._lasting = ExitStack()
        self._hooks: tuple[Watch, Exits] | None = None

    def run(self, order: Order) -> dict[str, Any]:
        """See `Executor.run`."""
        leaving = self._make_ready(order)
        # A stream, because a datagram holds no long list of points and no large result.
        ours, theirs = socket.socketpair()
        child = os.fork()
        if child == 0:
            ours.close()
            _be_child(theirs, self._entries[order.resume], order, leaving)
        theirs.close()
        with ours:
            heard = _hear(ours, time.monotonic() + order.limit_s)
            if heard is None or heard["when"] is not When.ENDED:
                os.kill(child, signal.SIGKILL)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if heard is None:
            return told(When.HUNG, said=f"no end within {order.limit_s:g} s")
        if not heard:
            return told(When.FAILED, said=how_it_ended(code))
        return heard

    def _make_ready(self, order: Order) -> Exits:
        """All that a child needs is set up in its parent: there it copies no pages."""
        if self._hooks is None:
            watch = self._lasting.enter_context(watching())
            self._hooks = watch, self._lasting.enter_context(exits())
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            sys.stdout, sys.stderr = _stream(1), _stream(2)
        os.environ.update(order.env)
        os.chdir(order.folder)
        # What the job prints goes to a file of its world, whatever the caller's streams are.
        output = os.open("../output", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        watch, leaving = self._hooks
        watch.turn_to(order.folder)
        return leaving


def _stream(number: int) -> TextIO:
    return open(
        number, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False
    )


def _hear(ours: socket.socket, deadline: float) -> dict[str, Any] | None:
    """What the child said: {} if it died without a word, None if nothing came in time."""
    parts: list[bytes] = []
    while not (parts and parts[-1].endswith(b"\n")):
        if not select.select([ours], [], [], max(0.0, deadline - time.monotonic()))[0]:
            return None
        more = ours.recv(CHUNK)
        if not more:
            return {}
        parts.append(more)
    heard: dict[str, Any] = json.loads(b"".join(parts))
    return {**heard, "when": When(heard["when"])}


class _Standing:
    """In the child: counts points; at the one asked for, says so and waits to be killed."""

    __slots__ = ("_at", "_channel", "_pid", "calls", "passed", "places")

    def __init__(self, channel: socket.socket, at: int) -> None:
        self._channel = channel
        self._at = at
        self._pid = os.getpid()
        self.passed: list[str] = []
        self.places: list[str] = []
        self.calls: list[tuple[str, str]] = []

    def reached(self, name: str) -> None:
        if os.getpid() != self._pid:
            return  # a child of the job: its points are not the job's
        self.passed.append(name)
        if self._at == DISCOVER:
            self.places.append(points.place())
        if len(self.passed) == self._at:
            self._channel.sendall(_line(told(When.CRASHED, self.passed)))
            while True:
                signal.pause()

    def heard(self, reply: Any) -> None:
        if self._at == DISCOVER:
            self.calls += points.calls_in(reply)

    def allow(self) -> None:
        """A process that is killed from outside asks nobody."""


class _Failing(_Standing):
    """In the child: has one write fail at the point asked for, and goes on."""

    __slots__ = ()

    def reached(self, name: str) -> None:
        at, self._at = self._at, 0
        super().reached(name)
        if len(self.passed) == at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._at = at


def _be_child(
    channel: socket.socket,
    entry: Callable[[str], Any],
    order: Order,
    leaving: Exits,
) -> NoReturn:
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if "random" in sys.modules:
            sys.modules["random"].seed()
        standing = (_Failing if order.fail else _Standing)(channel, order.at)
        points.listen(standing)
        try:
            with leaving.run_at_the_end():
                result = entry(order.folder)
                if inspect.isawaitable(result):
                    result = asyncio.run(_awaited(result))
                threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001  as at any end
            answer = told(
                When.ENDED,
                standing.passed,
                result=result,
                places=standing.places,
                calls=standing.calls,
            )
        except SystemExit as left:
            if left.code is None or left.code == 0:
                answer = told(When.ENDED, standing.passed, places=standing.places)
            else:
                answer = told(When.FAILED, standing.passed, said=f"SystemExit: {left.code}")
        except BaseException as error:  # noqa: BLE001  the job's own failure is what is asked about
            traceback.print_exc()
            said = f"{type(error).__name__}: {error}"
            answer = told(When.FAILED, standing.passed, said=said, places=standing.places)
        channel.sendall(_encoded(answer))
        code = 0
    finally:
        os._exit(code)


async def _awaited(result: Any) -> Any:
    return await result


def _encoded(answer: dict[str, Any]) -> bytes:
    try:
        return _line(answer)
    except (TypeError, ValueError):
        text = ascii(answer["result"])
        # An address differs from process to process, or by chance does not.
        return _line({**answer, "result": None if " at 0x" in text else text})


def _line(answer: dict[str, Any]) -> bytes:
    return json.dumps(answer).encode() + b"\n"
