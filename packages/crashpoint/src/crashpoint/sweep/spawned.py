"""The `spawn` crasher: any command in any language that announces its points on the socket.

The wire is that of `docs/wire.md`: a line from the program, a line back. The command's whole tree
is killed at the point asked for, before that announcement is answered.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NoReturn

from crashpoint.canonical import NotCanonical, parse
from crashpoint.sweep.runner import Order, how_it_ended, kill_below, told
from crashpoint.sweep.words import DISCOVER, SweepFault, When

__all__ = ["SpawnExecutor"]

GO: Final = b'{"go": true}\n'
REFUSED: Final = (
    b'{"error": "an announcement is one line {\\"trial\\": TOKEN, \\"point\\": NAME}"}\n'
)
LINE_MAX: Final = 1 << 16
CANNOT_START: Final = 127


class SpawnExecutor:
    """Runs `start` and `resume`, argument lists; the socket is made at `path`."""

    def __init__(self, start: Sequence[str], resume: Sequence[str], path: Path) -> None:
        self._commands = (list(start), list(resume))
        self._path = path

    @cached_property
    def _listener(self) -> socket.socket:
        """Made where it is used, in the runner; whoever made the executor has no copy to close."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        listener.bind(str(self._path))
        listener.listen(64)
        return listener

    def run(self, order: Order) -> dict[str, Any]:
        """See `Executor.run`."""
        if order.fail:
            raise SweepFault("a command's writes cannot be made to fail: use mode raise or fork")
        output = Path(order.folder).parent / "output"
        said_before = output.stat().st_size if output.exists() else 0
        listener = self._listener
        child = os.fork()
        if child == 0:
            self._be_command(order)
        ended = os.pidfd_open(child)
        try:
            watch = _Watch(listener, ended, order)
            stopped = watch.until()
        finally:
            os.close(ended)
        if stopped is not None:
            kill_below()
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        watch.close()
        if stopped is When.HUNG:
            said = f"no end within {order.limit_s:g} s"
            return told(When.HUNG, watch.passed, said=said, places=watch.places)
        if stopped is When.CRASHED:
            return told(When.CRASHED, watch.passed)
        if code == 0:
            return told(When.ENDED, watch.passed, places=watch.places)
        last = _last_line(output, said_before)
        said = how_it_ended(code) + (f" ({last})" if last else "")
        return told(When.FAILED, watch.passed, said=said, places=watch.places)

    def _be_command(self, order: Order) -> NoReturn:
        command = self._commands[order.resume]
        try:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.chdir(order.folder)
            output = os.open("../output", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(output, 1)
            os.dup2(output, 2)
            known = {"CRASHPOINT_POINTS": str(self._path), "CRASHPOINT_TRIAL": "sweep"}
            known |= {"CRASHPOINT_PLACES": "1"} if order.at == DISCOVER else {}
            os.execvpe(command[0], command, {**os.environ, **order.env, **known})  # noqa: S606
        except OSError as error:
            os.write(2, f"cannot start {command[0]!r}: {error.strerror}\n".encode())
        finally:
            os._exit(CANNOT_START)


class _Watch:
    """Answers announcements until the one asked for, the command's end, or the limit."""

    def __init__(self, listener: socket.socket, ended: int, order: Order) -> None:
        self.passed: list[str] = []
        self.places: list[str] = []
        self._at = order.at
        self._deadline = time.monotonic() + order.limit_s
        self._unread: dict[socket.socket, bytes] = {}
        self._listener = listener
        self._ended = ended
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        self._selector.register(ended, selectors.EVENT_READ)

    def until(self) -> When | None:
        """CRASHED or HUNG when it has to be killed, None when it has ended by itself."""
        while True:
            ready = self._selector.select(max(0.0, self._deadline - time.monotonic()))
            if not ready:
                return When.HUNG
            files = [key.fileobj for key, _ in ready]
            for file in files:
                if file is self._listener:
                    self._accept()
                elif isinstance(file, socket.socket) and self._read(file):
                    return When.CRASHED
            if self._ended in files:
                return None

    def close(self) -> None:
        for connection in self._unread:
            connection.close()
        self._selector.close()

    def _accept(self) -> None:
        with suppress(BlockingIOError):
            connection, _ = self._listener.accept()
            self._unread[connection] = b""
            self._selector.register(connection, selectors.EVENT_READ)

    def _read(self, connection: socket.socket) -> bool:
        """Whether the point asked for has been reached."""
        try:
            data = connection.recv(LINE_MAX)
        except OSError:
            data = b""
        *lines, rest = (self._unread[connection] + data).split(b"\n")
        if not data or len(rest) > LINE_MAX:
            self._selector.unregister(connection)
            del self._unread[connection]
            connection.close()
            return False
        self._unread[connection] = rest
        for line in lines:
            name, place = _announced(line)
            if name is not None:
                self.passed.append(name)
                if self._at == DISCOVER:
                    self.places.append(place)
                if len(self.passed) == self._at:
                    return True
            with suppress(OSError):
                connection.sendall(REFUSED if name is None else GO)
        return False


def _announced(line: bytes) -> tuple[str | None, str]:
    """The name of the point, and where in the code it is if the program says so."""
    try:
        announcement = parse(line)
        name, place = announcement["point"], announcement.get("place", "")
    except (NotCanonical, TypeError, KeyError, AttributeError):
        return None, ""
    if not isinstance(name, str):
        return None, ""
    return name, place if isinstance(place, str) else ""


def _last_line(output: Path, since: int) -> str:
    with output.open("rb") as file:
        file.seek(max(since, output.stat().st_size - LINE_MAX))
        lines = file.read().decode(errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else ""
