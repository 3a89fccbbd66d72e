"""A WebSocket to a runner: few frames, and a bound on what waits for one that does not read."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from outlive.wire.native_v1 import Dispatch, Entry, ToRunner, packed

__all__ = ["SocketLink"]

log = logging.getLogger("outlive.engine")

BACKLOG_MAX: Final = 64 << 20
"""Bytes that may wait for a runner; one that reads less is cut off and may come back."""
ROOM: Final = 4 << 20
"""Bytes waiting below which records are read to be sent."""
FRAME_BYTES: Final = 1 << 20
"""About the bytes of a frame; one message may be larger."""
MESSAGE_BYTES: Final = 64


class SocketLink:
    """See `Link`: what is sent in one turn of the loop leaves as one frame, or as few as can be."""

    def __init__(self, send: Callable[[MutableMapping[str, Any]], Awaitable[None]]) -> None:
        self._send = send
        self._waiting: list[ToRunner] = []
        self._bytes = 0
        """About what waits, or is being sent."""
        self._wake = asyncio.Event()
        self._closing = False
        self._roomy: asyncio.Event | None = None
        """Somebody waits for room."""
        self.slow = asyncio.Event()
        """Set when more waits than may."""

    def send(self, message: ToRunner) -> None:
        """See Link."""
        self._waiting.append(message)
        self._bytes += size_of(message)
        self._wake.set()
        if self._bytes > BACKLOG_MAX and not self.slow.is_set():
            log.warning("a runner does not read, %d bytes wait for it: it is cut off", self._bytes)
            self.slow.set()

    async def room(self) -> None:
        """See Link."""
        while self._bytes > ROOM and not self._closing:
            if self._roomy is None:
                self._roomy = asyncio.Event()
            await self._roomy.wait()

    def close(self) -> None:
        """See Link."""
        self._closing = True
        self._wake.set()
        self._tell_room()

    def _tell_room(self) -> None:
        roomy, self._roomy = self._roomy, None
        if roomy is not None:
            roomy.set()

    async def write(self) -> None:
        """Send frames until closed."""
        while not self._closing or self._waiting:
            await self._wake.wait()
            self._wake.clear()
            if self._waiting:
                waiting, self._waiting = self._waiting, []
                size = self._bytes
                for part in [waiting] if size <= FRAME_BYTES else parted(waiting):
                    await self._send({"type": "websocket.send", "bytes": packed(part)})
                self._bytes -= size
                self._tell_room()
        await self._send({"type": "websocket.close", "code": 1000})


def size_of(message: ToRunner) -> int:
    """About the bytes of a message."""
    if isinstance(message, Entry):
        return len(message.value) + MESSAGE_BYTES
    if isinstance(message, Dispatch):
        entries = sum(len(entry.value) + MESSAGE_BYTES for entry in message.entries)
        return len(message.input) + entries + MESSAGE_BYTES
    return MESSAGE_BYTES


def parted(messages: list[ToRunner]) -> list[list[ToRunner]]:
    """Messages, in order, as lists that make a frame each."""
    parts: list[list[ToRunner]] = []
    left = 0
    for message in messages:
        size = size_of(message)
        if size > left:
            parts.append([])
            left = FRAME_BYTES
        parts[-1].append(message)
        left -= size
    return parts
