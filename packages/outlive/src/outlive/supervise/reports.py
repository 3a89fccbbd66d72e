"""What a worker tells its warden, and a warden its supervisor: lines of JSON in a pipe."""

from __future__ import annotations

import contextlib
import os

import msgspec

__all__ = ["Reports", "Told", "tell"]


class Told(msgspec.Struct, frozen=True):
    """Who has which session. `pid` is the worker's; without a session it has only begun."""

    pid: int
    session: str = ""
    token: str = ""
    ttl_ms: int = 0


def tell(descriptor: int, told: Told) -> None:
    """Write a line; nobody may be left to read it."""
    with contextlib.suppress(BrokenPipeError):
        os.write(descriptor, msgspec.json.encode(told) + b"\n")


class Reports:
    """Reports out of a pipe that does not block, of which a read may bring half a line."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._rest = b""

    def read(self) -> list[Told]:
        """What has come; a line that is none of ours is passed over."""
        while True:
            try:
                data = os.read(self._descriptor, 65536)
            except BlockingIOError:
                break
            if not data:
                break
            self._rest += data
        *lines, self._rest = self._rest.split(b"\n")
        told = []
        for line in lines:
            with contextlib.suppress(msgspec.MsgspecError):
                told.append(msgspec.json.decode(line, type=Told))
        return told
