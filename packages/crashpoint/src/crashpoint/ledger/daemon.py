"""The ledger's own process: sockets in front of the desk, one sync behind every batch of replies.

One loop and no threads. All requests that are readable in one turn become one write and one sync,
and only then are their replies delivered, so waiting peers are grouped without a timer. The admin
channel is an inherited descriptor and has no path; when it closes, the controller is gone and so
is this.
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
from select import EPOLLIN, EPOLLOUT, epoll
from typing import Final

from crashpoint.ledger.book import Book, BookFault
from crashpoint.ledger.desk import Desk, Peer, Refused
from crashpoint.ledger.tally import Tally

__all__ = ["CONNECTIONS_MAX", "LINE_MAX", "PIPELINED_MAX", "Daemon", "SocketFault", "main"]

LINE_MAX: Final = 1 << 20
"""Bytes in one request line."""
PIPELINED_MAX: Final = 1024
"""Requests a peer may send ahead of their replies; one that sends more in one piece is dropped."""
CONNECTIONS_MAX: Final = 4096
"""Peers served at once; one more is hung up on."""
AWAKE_S: Final = 100e-6
"""Seconds to look for the next request before sleeping until it comes."""
READ_SIZE: Final = 1 << 16
EXIT_IO: Final = 74

Handler = Callable[[Peer, bytes], dict[str, object]]


class SocketFault(RuntimeError):
    """A socket cannot be made; the message names it."""


class _Connection:
    """One peer. What it has not read yet holds up what it asks next, so memory is bounded."""

    def __init__(self, sock: socket.socket, handler: Handler, peer: Peer, line_max: int) -> None:
        self.sock = sock
        self.handler = handler
        self.peer = peer
        self.line_max = line_max
        self.unread = b""
        self.unsent = bytearray()
        self.events = EPOLLIN
        self.open = True


class Daemon:
    """Serve one book on `invoke.sock` and `witness.sock` in a folder, and on the admin socket."""

    def __init__(
        self,
        book: Book,
        sockets: Path,
        admin: socket.socket,
        tally: Tally,
        *,
        invoke_mode: int = 0o600,
    ) -> None:
        """Raises BookFault when the book lacks what the tally holds, SocketFault."""
        self._book = book
        self._tally = tally
        self._tally.resume(book.found)
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
            for fd, events in self._wait():
                if fd in self._listeners:
                    self._accept(*self._listeners[fd])
                elif events & EPOLLOUT:
                    self._send(self._connections[fd])
                else:
                    self._read(self._connections[fd])
            fresh = self._desk.drain()
            if fresh:
                self._book.append(fresh)
                self._tally.add(fresh)
            self._deliver()
        self._book.close()

    def _wait(self) -> list[tuple[int, int]]:
        # A processor that has gone to sleep takes half as long to wake as a sync takes.
        until = time.monotonic() + AWAKE_S
        while time.monotonic() < until:
            ready = self._epoll.poll(0)
            if ready:
                return ready
            os.sched_yield()
        return self._epoll.poll()

    def _listen(self, path: Path, handler: Handler, mode: int) -> None:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            path.unlink(missing_ok=True)
            listener.bind(str(path))
            path.chmod(mode)
            listener.listen(1024)
        except OSError as error:
            raise SocketFault(f"cannot listen on {path}: {error}") from error
        self._listeners[listener.fileno()] = (listener, handler)
        self._epoll.register(listener, EPOLLIN)

    def _accept(self, listener: socket.socket, handler: Handler) -> None:
        # Hung up already, or out of descriptors: the peer finds the connection closed, or waits.
        with suppress(OSError):
            sock, _ = listener.accept()
            if len(self._connections) > CONNECTIONS_MAX:
                sock.close()
            else:
                self._add(sock, handler, LINE_MAX)

    def _add(self, sock: socket.socket, handler: Handler, line_max: int) -> _Connection:
        sock.setblocking(False)
        connection = _Connection(sock, handler, _peer_of(sock), line_max)
        self._epoll.register(sock, connection.events)
        self._connections[sock.fileno()] = connection
        return connection

    def _read(self, connection: _Connection) -> None:
        try:
            data = connection.sock.recv(READ_SIZE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        *lines, rest = (connection.unread + data).split(b"\n")
        if not data or len(lines) > PIPELINED_MAX:
            self._drop(connection)
            return
        # A line that is too long stays too long; what it says is not kept.
        connection.unread = rest[: connection.line_max + 1]
        for line in lines:
            self._replies.append((connection, self._answer(connection, line)))

    @staticmethod
    def _answer(connection: _Connection, line: bytes) -> dict[str, object]:
        if len(line) > connection.line_max:
            return {"error": f"a request line holds at most {connection.line_max} bytes"}
        try:
            return connection.handler(connection.peer, line)
        except Refused as refusal:
            return {"error": str(refusal)}

    def _deliver(self) -> None:
        replies, self._replies = self._replies, []
        for connection, reply in replies:
            connection.unsent += json.dumps(reply).encode() + b"\n"
        for connection in dict.fromkeys(connection for connection, _ in replies):
            self._send(connection)

    def _send(self, connection: _Connection) -> None:
        try:
            sent = connection.sock.send(connection.unsent)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._drop(connection)
            return
        del connection.unsent[:sent]
        events = EPOLLOUT if connection.unsent else EPOLLIN
        if events != connection.events:
            connection.events = events
            self._epoll.modify(connection.sock, events)

    def _drop(self, connection: _Connection) -> None:
        del self._connections[connection.sock.fileno()]
        connection.sock.close()
        connection.open = False


def main(argv: list[str] | None = None, *, open_book: Callable[[Path], Book] = Book) -> int:
    """Run the daemon; exit 0 when the controller has gone, 74 when the file or a socket failed."""
    parser = argparse.ArgumentParser(prog="crashpoint.ledger.daemon", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--sockets", type=Path, required=True)
    parser.add_argument("--admin-fd", type=int, required=True)
    parser.add_argument("--tally-fd", type=int, required=True)
    parser.add_argument("--invoke-mode", type=lambda text: int(text, 8), default=0o600)
    options = parser.parse_args(argv)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    admin = socket.socket(fileno=options.admin_fd)
    os.set_inheritable(options.admin_fd, False)
    tally = Tally(options.tally_fd)
    os.close(options.tally_fd)
    try:
        book = open_book(options.folder)
        Daemon(book, options.sockets, admin, tally, invoke_mode=options.invoke_mode).run()
    except (BookFault, SocketFault) as fault:
        sys.stderr.write(f"crashpoint ledger: {fault}\n")
        return EXIT_IO
    return 0


def _peer_of(sock: socket.socket) -> Peer:
    pid, uid, gid = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return Peer(pid, uid, gid, _start_of(pid))


def _start_of(pid: int) -> int:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0
    return int(stat.rpartition(")")[2].split()[19])


if __name__ == "__main__":
    sys.exit(main())
