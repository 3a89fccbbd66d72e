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
from outlive.server.http import ROUTES, Handler, Request
from outlive.server.link import SocketLink
from outlive.store.api import StoreFault
from outlive.wire.native_v1 import PROTOCOL, FrameFault, FromRunner, Hello, from_runner
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
HELLO_S: Final = 10.0
"""Seconds that a connection has to say hello."""
NO_KEY: Final = "the key is missing or wrong: send it as `Authorization: Bearer KEY`"
WRONG_KEY: Final = "the key is missing or wrong: a runner is given it as OUTLIVE_KEY"


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

    def _key_in(self, scope: Scope) -> bool | None:
        """Whether the headers hold the key; None: they hold none, and one is asked for."""
        if not self._key:
            return True
        given = dict(scope["headers"]).get(b"authorization")
        return None if given is None else hmac.compare_digest(given, bearer(self._key))

    # --- runners ---

    async def _socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        keyed = self._key_in(scope)
        if scope["path"] != CONNECT or keyed is False:
            wrong_key = scope["path"] == CONNECT
            await _turn_away(send, 401 if wrong_key else 404, scope)
            return
        await send({"type": "websocket.accept"})
        link = SocketLink(send)
        peer = self._engine.connect(link)
        loop = asyncio.get_running_loop()
        hurry = loop.call_later(HELLO_S, peer.hurry)
        tasks = [
            loop.create_task(link.write()),
            loop.create_task(_read(peer, receive, "" if keyed else self._key)),
            loop.create_task(link.slow.wait()),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            hurry.cancel()
            peer.closed()
            link.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

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
        if scope["path"] not in OPEN and not self._key_in(scope):
            raise Refusal(NO_KEY, 401)
        if scope["path"] not in OPEN:
            self._engine.check_ready()
        method = scope["method"]
        path = tuple(unquote(part) for part in scope["raw_path"].decode("latin-1").split("/")[1:])
        handler, parts = _route(method, path)
        body = await _body(receive) if method == "POST" else b""
        asked = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        query = {name: values[-1] for name, values in asked.items()}
        answer: tuple[int, Any] = await handler(self._engine, Request(parts, query, body))
        return answer


async def _turn_away(send: Send, status: int, scope: Scope) -> None:
    """Answer a handshake with a status, or with 403 where the server cannot say another."""
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1008})
        return
    cause = NO_KEY if status == 401 else f"runners connect to {CONNECT}"
    body = msgspec.json.encode({"error": cause})
    headers = [(b"content-type", b"application/json")]
    await send({"type": "websocket.http.response.start", "status": status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": body})


async def _read(peer: Peer, receive: Receive, key: str) -> None:
    """Hand on what comes; `key` is what hello has to hold, if not empty."""
    while True:
        message = await receive()
        if message["type"] != "websocket.receive":
            return
        try:
            messages = from_runner(_binary(message))
            if key:
                _check_key(messages, key)
                key = ""
            peer.received(messages)
        except FrameFault as fault:
            peer.refuse(str(fault))
            await asyncio.Event().wait()  # the writer ends the connection


def _check_key(messages: list[FromRunner], key: str) -> None:
    first = messages[0] if messages else None
    given = first.key.encode() if isinstance(first, Hello) else b""
    if not hmac.compare_digest(given, key.encode()):
        raise FrameFault(WRONG_KEY)


def _binary(message: MutableMapping[str, Any]) -> bytes:
    frame: bytes | None = message.get("bytes")
    if frame is None:
        raise FrameFault(f"no frame of {PROTOCOL}: a text frame; frames are binary")
    return frame


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


def _route(method: str, path: tuple[str, ...]) -> tuple[Handler, Mapping[str, str]]:
    """Who answers, and the variable parts of the path; raises Refusal."""
    others = []
    for (wanted, pattern), handler in ROUTES.items():
        if len(pattern) != len(path):
            continue
        parts: dict[str, str] = {}
        for name, part in zip(pattern, path, strict=True):
            if name.startswith("{"):
                parts[name[1:-1]] = part
            elif name != part:
                break
        else:
            if wanted == method:
                return handler, parts
            others.append(wanted)
    where = "/" + "/".join(path)
    if others:
        raise Refusal(f"{where} has no {method}, but {', '.join(others)}", 405)
    raise Refusal(f"there is nothing at {where}", 404)


def bearer(key: str) -> bytes:
    """The header's value that holds the key."""
    return b"Bearer " + key.encode()
