"""The WebSocket between a session and its engine."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from outlive.sdk.session import Session
from outlive.wire.native_v1 import FRAME_MAX, FrameFault, FromRunner, from_engine, packed

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

__all__ = ["address", "frames", "hold"]

CLOSE_S: Final = 2.0
"""How long a closing handshake may take."""
_log = logging.getLogger("outlive.sdk")


def address(engine: str) -> str:
    """The WebSocket's address for that of an engine; raises ValueError."""
    scheme, there, rest = engine.partition("://")
    known = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}
    if scheme not in known or not there or not rest.strip("/"):
        raise ValueError(f"engine {engine!r} is no address: write http://127.0.0.1:6770")
    return f"{known[scheme]}://{rest.rstrip('/')}/v1/connect"


def frames(messages: Sequence[FromRunner]) -> list[bytes]:
    """Messages as frames that are not too large: mostly one."""
    frame = packed(messages)
    if len(frame) <= FRAME_MAX or len(messages) == 1:
        return [frame]
    half = len(messages) // 2
    return frames(messages[:half]) + frames(messages[half:])


async def hold(uri: str, session: Session) -> None:
    """Connect, and carry frames both ways until the link ends.

    Raises OSError, TimeoutError or websockets.WebSocketException when it cannot be made.
    """
    from websockets.asyncio.client import connect

    loop = asyncio.get_running_loop()
    wake = asyncio.Event()
    ending = False

    def hang_up() -> None:
        nonlocal ending
        ending = True
        wake.set()

    async def write(socket: ClientConnection) -> None:
        while True:
            await wake.wait()
            wake.clear()
            for frame in frames(messages) if (messages := session.take()) else ():
                await socket.send(frame)
            if ending:
                await socket.close()
                return

    async with connect(
        uri,
        compression=None,
        ping_interval=None,
        max_size=FRAME_MAX,
        max_queue=64,
        close_timeout=CLOSE_S,
        proxy=None if "://127." in uri or "://localhost" in uri or "://[::1]" in uri else True,
    ) as socket:
        session.output = wake.set
        session.hang_up = hang_up
        session.opened()
        writer = loop.create_task(write(socket))
        try:
            async for frame in socket:
                # Workflow code must run in a plain callback: a task cannot run inside a task.
                loop.call_soon(session.receive, from_engine(_binary(frame)))
        except FrameFault as fault:
            _log.error("the engine sent what is not understood: %s", fault)
        finally:
            session.output = session.hang_up = lambda: None
            session.closed()
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)


def _binary(frame: str | bytes) -> bytes:
    if isinstance(frame, str):
        raise FrameFault("a text frame; frames are binary")
    return frame
