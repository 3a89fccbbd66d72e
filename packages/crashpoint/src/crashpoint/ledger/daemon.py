"""The ledger's own process: sockets in front of the desk, one sync behind every batch of replies.

One loop and no threads. All requests that are readable in one turn become one write and one sync, and
only then are their replies delivered, so waiting peers are grouped without a timer. The admin channel
is an inherited descriptor and has no path; when it closes, the controller is gone and so is this.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import socket
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from select import EPOLLHUP, EPOLLIN, EPOLLOUT, epoll
from typing import Final

from crashpoint.ledger.book import Book, BookFault
from crashpoint.ledger.desk import Desk, Peer, Refused

__all__ = ["CONNECTIONS_MAX", "LINE_MAX", "PIPELINED_MAX", "Daemon", "main"]

LINE_MAX: Final = 1 << 20
"""Bytes in one request line."""
PIPELINED_MAX: Final = 1024
"""Requests a peer may send ahead of their replies; one that sends more in one piece is dropped."""
CONNECTIONS_MAX: Final = 4096
"""Peers served at once; one more is hung up on."""
READ_SIZE: Final = 1 << 16
EXIT_IO: Final = 74

Handler = Callable[[Peer, bytes], dict[str, object]]


class _Connection:
    """One peer. What it has not read yet holds up what it asks next, so memory is bounded."""

    def __init__(self, sock: socket.socket, handler: Handler, peer: Peer, line_max: int) -> None:
        self.sock = sock
        self.handler = handler
        self.peer = peer
        self.line_max = line_max
        self.unread = b""
        self.unsent = bytearray()
        self.open = True


class Daemon:
    """Serve one book on `invoke.sock` and `witness.sock` in a folder, and on the admin socket."""

    def __init__(
        self, book: Book, sockets: Path, admin: socket.socket, *, invoke_mode: int = 0o600
    ) -> None:
        self._book = book
        self._desk = Desk(book.recovered, time.time_ns)
        self._epoll = epoll()
        self._connections: dict[int, _Connection] = {}
        self._listeners: dict[int, tuple[socket.socket, Handler]] = {}
        self._replies: list[tuple[_Connection, dict[str, object]]] = []
        self._admin = self._add(admin, lambda _peer, line: self._desk.admin(line), sys.maxsize)
        self._listen(sockets / "invoke.sock", self._desk.invoke, invoke_mode)
        self._listen(sockets / "witness.sock", self._desk.witness, 0o600)

    def run(self) -> None:
        """Serve until the admin channel closes; raises BookFault when the file fails."""
        self._replies.append((self._admin, {"ready": True, "seq": 0}))
        self._deliver()
        while self._admin.open:
            for fd, events in self._epoll.poll():
                if fd in self._listeners:
                    self._accept(*self._listeners[fd])
                elif events & EPOLLOUT:
                    self._send(self._connections[fd])
                else:
                    self._read(self._connections[fd])
            fresh = self._desk.drain()
            if fresh:
                self._book.append(fresh)
            self._deliver()

    def _listen(self, path: Path, handler: Handler, mode: int) -> None:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        with suppress(FileNotFoundError):
            path.unlink()
        listener.bind(str(path))
        path.chmod(mode)
        listener.listen(1024)
        self._listeners[listener.fileno()] = (listener, handler)
        self._epoll.register(listener, EPOLLIN)

    def _accept(self, listener: socket.socket, handler: Handler) -> None:
        # Hung up already, or out of descriptors: the peer finds the connection closed or waits.
        with suppress(OSError):
            sock, _ = listener.accept()
            with sock:
                if len(self._connections) <= CONNECTIONS_MAX:
                    self._add(socket.socket(fileno=os.dup(sock.fileno())), handler, LINE_MAX)

    def _add(self, sock: socket.socket, handler: Handler, line_max: int) -> _Connection:
        sock.setblocking(False)
        connection = _Connection(sock, handler, _peer_of(sock), line_max)
        self._connections[sock.fileno()] = connection
        self._epoll.register(sock, EPOLLIN)
        return connection
