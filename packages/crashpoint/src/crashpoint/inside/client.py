"""What a program under test says to the bench: `reach` a point, perform an `effect`.

Both speak one JSON line over a Unix socket named in the environment; `docs/wire.md` has the same in
ten lines of JavaScript. Nothing here can count, read back or end a trial.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from typing import Any

__all__ = ["BenchRefused", "effect", "reach"]


class BenchRefused(RuntimeError):
    """The bench answered with an error, or is gone; str() is its answer."""


class _Line:
    """One connection of this process to one socket; opened when first used."""

    def __init__(self, variable: str) -> None:
        self._variable = variable
        self._lock = threading.Lock()
        self._owner = 0
        self._stream: Any = None

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            line = json.dumps(request, separators=(",", ":")).encode() + b"\n"
            try:
                return self._exchange(line)
            except (ConnectionError, EOFError):
                # The far end was replaced: the same line again, so that it is known for a re-send.
                self._owner = 0
                try:
                    return self._exchange(line)
                except (ConnectionError, EOFError) as error:
                    raise BenchRefused(f"{self._variable}: the bench is gone ({error})") from error

    def _exchange(self, line: bytes) -> dict[str, Any]:
        if self._owner != os.getpid():  # a connection is never shared across a fork
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.connect(os.environ[self._variable])
            self._stream = connection.makefile("rwb", buffering=0)
            self._owner = os.getpid()
        self._stream.write(line)
        reply: dict[str, Any] = json.loads(self._read_line())
        if "error" in reply:
            raise BenchRefused(reply["error"])
        return reply

    def _read_line(self) -> bytes:
        data = b""
        while not data.endswith(b"\n"):
            more = self._stream.read(65536)
            if not more:
                raise EOFError("connection closed")
            data += more
        return data


_points = _Line("CRASHPOINT_POINTS")
_ledger = _Line("CRASHPOINT_LEDGER")


def reach(point: str) -> None:
    """Announce a point and wait there until the controller lets this thread go on, or never does."""
    _points.ask({"trial": os.environ["CRASHPOINT_TRIAL"], "point": point})


def effect(name: str, action: Any, key: str | None = None) -> str:
    """Perform the effect `name` with a JSON `action`; returns an opaque receipt.

    `key` is what a receiver would deduplicate on; None means that each call is an effect of its own.
    """
    request = {"trial": os.environ["CRASHPOINT_TRIAL"], "id": os.urandom(16).hex()}
    receipt: str = _ledger.ask({**request, "effect": name, "key": key, "action": action})["receipt"]
    return receipt
