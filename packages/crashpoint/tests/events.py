"""Things to wait for, with a deadline: lines in a file, and a word from inside a subject."""

import ctypes
import os
import select
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

__all__ = ["DEADLINE_S", "Bell", "whole_lines"]

DEADLINE_S = 20.0
IN_MODIFY, IN_MOVED_TO, IN_CREATE = 0x2, 0x80, 0x100


def whole_lines(path: Path, number: int) -> None:
    """Wait until the file has so many whole lines. Its folder must exist."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.inotify_init1(os.O_CLOEXEC)
    try:
        mask = IN_MODIFY | IN_MOVED_TO | IN_CREATE
        assert libc.inotify_add_watch(fd, os.fsencode(path.parent), mask) >= 0
        _wait(fd, lambda: _lines_in(path) >= number, f"{number} lines in {path}")
    finally:
        os.close(fd)


def _lines_in(path: Path) -> int:
    with suppress(FileNotFoundError):
        return path.read_bytes().count(b"\n")
    return 0


def _wait(fd: int, condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    while not condition():
        if not poller.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise AssertionError(f"not within {DEADLINE_S:.0f} s: {what}")
        os.read(fd, 1 << 16)


class Rung:
    """Somebody who rang and waits. `pid` as the kernel says."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        connection.settimeout(DEADLINE_S)
        packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        self.pid = struct.unpack("3i", packed)[0]
        self.word = connection.recv(100).decode()

    def let_go(self) -> None:
        """Let it go on."""
        self._connection.close()


class Bell:
    """A socket that a process under test rings, and then waits at until it is let go."""

    def __init__(self, path: Path) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._listener.settimeout(DEADLINE_S)
        self._rung: list[Rung] = []
        self.env = {"BELL": str(path)}

    def wait(self) -> Rung:
        """The next one to ring."""
        rung = Rung(self._listener.accept()[0])
        self._rung.append(rung)
        return rung

    def close(self) -> None:
        """Let everyone go on, later ones too."""
        self._listener.close()
        for rung in self._rung:
            rung.let_go()
