"""Looks into another process's sockets, to see that something waits there unread."""

import array
import ctypes
import fcntl
import os
import select
import socket
import struct
import termios
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

__all__ = ["Sockets", "wait_until_readable"]

PIDFD_GETFD = 438
DEADLINE_S = 30.0


class Sockets:
    """Copies of the Unix sockets that a process has now; use as a context manager."""

    def __init__(self, pid: int) -> None:
        self.all: list[socket.socket] = []
        pidfd = os.pidfd_open(pid)
        libc = ctypes.CDLL(None, use_errno=True)
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            fd = libc.syscall(PIDFD_GETFD, pidfd, int(entry.name), 0)
            with suppress(OSError):
                copy = socket.socket(fileno=fd)
                self.all.append(copy)
        os.close(pidfd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_ignored) -> None:
        for copy in self.all:
            copy.close()

    def from_peer(self, pid: int) -> socket.socket:
        """The one whose other end this process opened."""
        (found,) = [
            copy
            for copy in self.all
            if not listens(copy)
            and struct.unpack("3i", copy.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
            == pid
        ]
        return found

    def listener(self, path: str) -> socket.socket:
        """The one that listens at a path."""
        (found,) = [copy for copy in self.all if listens(copy) and copy.getsockname() == path]
        return found


def listens(copy: socket.socket) -> bool:
    return bool(copy.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


def wait_until_readable(copy: socket.socket, size: int = 0) -> None:
    """Wait until something, or at least so many bytes, can be read or accepted."""
    poller = select.poll()
    poller.register(copy, select.POLLIN)
    deadline = time.monotonic() + DEADLINE_S
    assert poller.poll(DEADLINE_S * 1000)
    while size and _unread(copy) < size:
        assert time.monotonic() < deadline


def _unread(copy: socket.socket) -> int:
    number = array.array("i", [0])
    fcntl.ioctl(copy, termios.FIONREAD, number)
    return number[0]
