"""The engine on a port: runners by WebSocket, everybody else by HTTP and JSON."""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final
from urllib.parse import parse_qs, unquote

import msgspec

from outlive.server.engine import Engine, Peer, Refusal
from outlive.server.http import ROUTES, Request
from outlive.store.api import StoreFault
from outlive.wire.native_v1 import FrameFault, ToRunner, from_runner, packed
from outlive.wire.values import VALUE_MAX, NotStorable

__all__ = ["Asgi"]

log = logging.getLogger("outlive.http")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

BODY_MAX: Final = VALUE_MAX + (1 << 20)
OPEN: Final = frozenset({"/v1/health", "/v1/ready"})
"""Paths that need no key."""
CONNECT: Final = "/v1/connect"


class _SocketLink:
    """See `Link`: what is sent in one turn of the loop leaves as one frame."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._waiting: list[ToRunner] = []
        self._wake = asyncio.Event()
        self._closing = False

    def send(self, message: ToRunner) -> None:
        """See Link."""
        self._waiting.append(message)
        self._wake.set()

    def close(self) -> None:
        """See Link."""
        self._closing = True
        self._wake.set()

    async def write(self) -> None:
        """Send frames until closed."""
        while not self._closing or self._waiting:
            await self._wake.wait()
            self._wake.clear()
            if self._waiting:
                waiting, self._waiting = self._waiting, []
                await self._send({"type": "websocket.send", "bytes": packed(waiting)})
        await self._send({"type": "websocket.close", "code": 1000})


class Asgi:
    """An ASGI application. `key`, if not empty, is asked of everybody."""

    def __init__(self, engine: Engine, *, key: str = "") -> None:
        self._engine = engine
        self._key = key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] == "websocket":
            await self._socket(scope, receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)

    def _allowed(self, scope: Scope) -> bool:
        if not self._key or scope["path"] in OPEN:
            return True
        given = dict(scope["headers"]).get(b"authorization", b"")
        return hmac.compare_digest(given, b"Bearer " + self._key.encode())

    # --- runners ---

    async def _socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        if scope["path"] != CONNECT or not self._allowed(scope):
            await send({"type": "websocket.close", "code": 1008})
            return
        await send({"type": "websocket.accept"})
        link = _SocketLink(send)
        peer = self._engine.connect(link)
        writer = asyncio.get_running_loop().create_task(link.write())
        reader = asyncio.get_running_loop().create_task(_read(peer, receive))
        try:
            await asyncio.wait([writer, reader], return_when=asyncio.FIRST_COMPLETED)
        finally:
            peer.closed()
            for task in (writer, reader):
                task.cancel()
            await asyncio.gather(writer, reader, return_exceptions=True)

    # --- everybody else ---

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            status, answer = await self._answer(scope, receive)
        except Refusal as refusal:
            status, answer = refusal.code, {"error": str(refusal)}
        except NotStorable as error:
            status, answer = 400, {"error": str(error)}
        except StoreFault as fault:
            status, answer = 503, {"error": f"the store failed, ask again: {fault}"}
        except Exception:
            log.exception("a defect of the engine, asked for %s", scope["path"])
            status, answer = 500, {"error": "a defect of the engine; its log has the details"}
        body = msgspec.json.encode(answer)
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: Scope, receive: Receive) -> tuple[int, Any]:
        if not self._allowed(scope):
            raise Refusal(
                "the key is missing or wrong: send it as `Authorization: Bearer KEY`", 401
            )
        method = scope["method"]
        path = tuple(unquote(part) for part in scope["raw_path"].decode("latin-1").split("/")[1:])
        body = await _body(receive) if method == "POST" else b""
        query = {
            name: values[-1] for name, values in parse_qs(scope["query_string"].decode()).items()
        }
        found = _route(method, path)
        if found is None:
            raise Refusal(f"there is no {method} {scope['path']}", 404)
        handler, parts = found
        answer: tuple[int, Any] = await handler(self._engine, Request(parts, query, body))
        return answer


async def _read(peer: Peer, receive: Receive) -> None:
    while True:
        message = await receive()
        if message["type"] != "websocket.receive":
            return
        frame = message.get("bytes")
        try:
            # A frame of text is none: an empty one does not decode, and says so.
            peer.received(from_runner(frame or b""))
        except FrameFault as fault:
            peer.refuse(str(fault))
            await asyncio.Event().wait()  # the writer ends the connection


async def _body(receive: Receive) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        part = message.get("body", b"")
        size += len(part)
        if size > BODY_MAX:
            raise Refusal(f"the body has more than {BODY_MAX:,} bytes", 413)
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


def _route(method: str, path: tuple[str, ...]) -> tuple[Any, Mapping[str, str]] | None:
    for (wanted, pattern), handler in ROUTES.items():
        if wanted != method or len(pattern) != len(path):
            continue
        parts: dict[str, str] = {}
        for name, part in zip(pattern, path, strict=True):
            if name.startswith("{"):
                parts[name[1:-1]] = part
            elif name != part:
                break
        else:
            return handler, parts
    return None
