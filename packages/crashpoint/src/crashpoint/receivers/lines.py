"""The receiver's other front: a line of JSON each way over a Unix socket, one request a connection.

For subjects that make thousands of requests: no headers, no thread for each. What is asked and
answered is the same as over HTTP, and so is silence: a request without an answer is hung up on.
"""

from __future__ import annotations

import json
import selectors
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from crashpoint.canonical import NotCanonical, parse
from crashpoint.receivers.client import ReceiverTimeout
from crashpoint.receivers.service import Reply

__all__ = ["LineServer"]

READ_SIZE: Final = 1 << 16
WRITE_S: Final = 5.0
"""Longest wait for a peer to take its answer, during which nobody else gets one."""
PEERS_MAX: Final = 1024
"""Connections at once; one more is hung up on."""


class LineServer:
    """Listens at `path`. `answer` gets a request's address (`TAG` or `TAG/person`) and itself."""

    def __init__(
        self, path: Path, answer: Callable[[str, Any], Reply], *, request_max: int
    ) -> None:
        self._answer = answer
        self._request_max = request_max
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with suppress(FileNotFoundError):
            path.unlink()
        self._listener.bind(str(path))
        self._listener.listen(128)
        self._listener.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._unread: dict[socket.socket, bytes] = {}

    def serve(self) -> None:
        """Answer for ever; for a thread of its own."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._listener:
                    self._accept()
                else:
                    assert isinstance(key.fileobj, socket.socket)
                    self._read(key.fileobj)

    def _accept(self) -> None:
        with suppress(OSError):
            peer, _ = self._listener.accept()
            if len(self._unread) >= PEERS_MAX:
                peer.close()
                return
            peer.settimeout(WRITE_S)
            self._unread[peer] = b""
            self._selector.register(peer, selectors.EVENT_READ)

    def _read(self, peer: socket.socket) -> None:
        try:
            data = peer.recv(READ_SIZE)
        except OSError:
            data = b""
        # Of a line that is too long no more is kept than shows it; the answer waits for its end, or
        # the peer would lose it in a connection that was closed on what it still sends.
        line = self._unread[peer] = (self._unread[peer] + data)[: self._request_max + 1]
        if data and not data.endswith(b"\n"):
            return
        self._selector.unregister(peer)
        del self._unread[peer]
        with peer, suppress(OSError):
            reply = self._reply(line) if data else None
            if reply is not None:
                peer.sendall(json.dumps(reply, ensure_ascii=False).encode() + b"\n")

    def _reply(self, line: bytes) -> Reply | None:
        if not line.endswith(b"\n"):
            sentence = f"a request has at most {self._request_max} bytes"
            return {"status": 413, "body": {"error": sentence}}
        try:
            asked = parse(line, depth_max=9)
            to, request = asked["to"], asked["request"]
        except (NotCanonical, TypeError, KeyError) as error:
            sentence = f"a request is one line {{to, request}}: {error}"
            return {"status": 400, "body": {"error": sentence}}
        try:
            return self._answer(str(to), request)
        except ReceiverTimeout:
            return None
