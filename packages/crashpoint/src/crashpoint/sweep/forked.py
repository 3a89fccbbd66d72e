"""The `fork` crasher: each process of a scenario is a fork of the warmed caller, killed by SIGKILL.

The child counts its points and stops at the one asked for; its parent kills it there. Files and
sockets are real; the import image and the hash seed are the parent's.
"""

from __future__ import annotations

import asyncio
import http.client  # noqa: F401  what every child would import is imported before they are forked
import inspect
import json
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from typing import Any, Final, NoReturn

from crashpoint.inside import points
from crashpoint.sweep.hooks import watching
from crashpoint.sweep.runner import Order, how_it_ended, told
from crashpoint.sweep.words import DISCOVER, When

__all__ = ["ForkExecutor"]

MESSAGE_MAX: Final = 1 << 20


class ForkExecutor:
    """Runs `start` and `resume`, functions of the state folder's path."""

    def __init__(self, start: Callable[[str], Any], resume: Callable[[str], Any]) -> None:
        self._entries = (start, resume)

    def run(self, order: Order) -> dict[str, Any]:
        """See `Executor.run`."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        child = os.fork()
        if child == 0:
            ours.close()
            _be_child(theirs, self._entries[order.resume], order)
        theirs.close()
        with ours:
            heard = _hear(ours, order.limit_s)
            if heard is None or heard["when"] is not When.ENDED:
                os.kill(child, signal.SIGKILL)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if heard is None:
            return told(When.HUNG, said=f"no end within {order.limit_s:g} s")
        if not heard:
            return told(When.FAILED, said=how_it_ended(code))
        return heard


def _hear(ours: socket.socket, limit_s: float) -> dict[str, Any] | None:
    """What the child said: {} if it died without a word, None if nothing came in time."""
    if not select.select([ours], [], [], limit_s)[0]:
        return None
    message = ours.recv(MESSAGE_MAX)
    if not message:
        return {}
    heard: dict[str, Any] = json.loads(message)
    return {**heard, "when": When(heard["when"])}


class _Standing:
    """In the child: counts points; at the one asked for, says so and waits to be killed."""

    __slots__ = ("_at", "_channel", "_pid", "passed", "places")

    def __init__(self, channel: socket.socket, at: int) -> None:
        self._channel = channel
        self._at = at
        self._pid = os.getpid()
        self.passed: list[str] = []
        self.places: list[str] = []

    def reached(self, name: str) -> None:
        if os.getpid() != self._pid:
            return  # a child of the job: its points are not the job's
        self.passed.append(name)
        if self._at == DISCOVER:
            self.places.append(points.place())
        if len(self.passed) == self._at:
            self._channel.send(json.dumps(told(When.CRASHED, self.passed)).encode())
            while True:
                signal.pause()

    def allow(self) -> None:
        """A process that is killed from outside asks nobody."""


def _be_child(channel: socket.socket, entry: Callable[[str], Any], order: Order) -> NoReturn:
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.environ.update(order.env)
        os.chdir(order.folder)
        output = os.open("../output", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(output, 1)
        os.dup2(output, 2)
        if "random" in sys.modules:
            sys.modules["random"].seed()
        standing = _Standing(channel, order.at)
        points.listen(standing)
        try:
            with watching(order.folder):
                result = entry(order.folder)
                if inspect.isawaitable(result):
                    result = asyncio.run(_awaited(result))
            answer = told(When.ENDED, standing.passed, result=result, places=standing.places)
        except Exception as error:  # noqa: BLE001  the job's own failure is what is asked about
            traceback.print_exc()
            answer = told(When.FAILED, standing.passed, said=f"{type(error).__name__}: {error}")
        channel.send(_encoded(answer))
        code = 0
    finally:
        os._exit(code)


async def _awaited(result: Any) -> Any:
    return await result


def _encoded(answer: dict[str, Any]) -> bytes:
    try:
        return json.dumps(answer).encode()
    except (TypeError, ValueError):
        return json.dumps({**answer, "result": repr(answer["result"])}).encode()
