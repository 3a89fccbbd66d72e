"""What a program under test says to the bench: `reach` a point, perform an `effect`.

Both speak one JSON line over a Unix socket named in the environment; `docs/wire.md` has the same in
ten lines of JavaScript. Nothing here can count, read back or end a trial.
"""

from __future__ import annotations

import _socket  # `socket` dresses these up as enums, a third of what importing this module may cost
import _thread
import json
import os

__all__ = ["BenchRefused", "effect", "reach"]


class BenchRefused(RuntimeError):
    """The bench answered with an error, or is gone; str() is its answer."""


class _Line:
    """One connection of this process to one socket; opened when first used."""

    def __init__(self, variable: str) -> None:
        self._variable = variable
        self._idle: _socket.socket | None = None
        self._renew()
        os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        """A connection and a held lock are the parent's, never shared across a fork."""
        self._lock = _thread.allocate_lock()
        if self._idle is not None:
            self._idle.close()
            self._idle = None

    def ask(self, request: dict[str, object]) -> dict[str, object]:
        line = json.dumps(request).encode() + b"\n"
        with self._lock:
            try:
                reply = self._exchange(line)
            except (OSError, EOFError):
                # The far end was replaced: the same line again, so that it is known for a re-send.
                try:
                    reply = self._exchange(line)
                except (OSError, EOFError) as error:
                    raise BenchRefused(f"{self._variable}: the bench is gone ({error})") from error
        if "error" in reply:
            raise BenchRefused(reply["error"])
        return reply

    def _exchange(self, line: bytes) -> dict[str, object]:
        connection = self._idle or _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        is_new, self._idle = connection is not self._idle, None
        try:
            if is_new:
                connection.connect(_given(self._variable))
            connection.sendall(line)
            data = b""
            while not data.endswith(b"\n"):
                more = connection.recv(65536)
                if not more:
                    raise EOFError("connection closed")  # noqa: TRY301  closed here, caught in ask
                data += more
        except BaseException:
            connection.close()  # a reply that comes late must not answer the next request
            raise
        self._idle = connection
        reply: dict[str, object] = json.loads(data)
        return reply


def _given(variable: str) -> str:
    try:
        return os.environ[variable]
    except KeyError:
        raise BenchRefused(f"{variable} is not set: the bench did not start this process") from None


_points = _Line("CRASHPOINT_POINTS")
_ledger = _Line("CRASHPOINT_LEDGER")


def reach(point: str, place: str = "") -> None:
    """Announce a point (and its place in the code); wait there until the controller lets go on."""
    more = {"place": place} if place else {}
    _points.ask({"trial": _given("CRASHPOINT_TRIAL"), "point": point, **more})


def effect(name: str, action: object, key: str | None = None) -> str:
    """Perform the effect `name` with a JSON `action`; returns an opaque receipt.

    `key` is what a receiver would deduplicate on; None: each call is an effect of its own.
    Raises BenchRefused, and TypeError or ValueError for an action that is no JSON.
    """
    request = {"trial": _given("CRASHPOINT_TRIAL"), "id": os.urandom(16).hex()}
    return str(_ledger.ask({**request, "effect": name, "key": key, "action": action})["receipt"])
