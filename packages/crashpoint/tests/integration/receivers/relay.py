"""Stands between a receiver and the ledger and holds one line back until a test decides."""

import queue
import socket
import threading
from contextlib import suppress
from pathlib import Path

__all__ = ["Relay"]

DEADLINE_S = 30.0


class Relay:
    """Passes requests and replies on, one connection at a time. `hold` stops the next append."""

    def __init__(self, path: Path, ledger: Path) -> None:
        self.path = path
        self._ledger = ledger
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._held: queue.Queue[None] = queue.Queue()
        self._go: queue.Queue[bool] = queue.Queue()
        self._where: str | None = None
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def hold(self, where: str) -> None:
        """Hold the next append: "before" it reaches the ledger, or "after", its reply."""
        self._where = where

    def wait_until_held(self) -> None:
        """Wait until an append is being held."""
        self._held.get(timeout=DEADLINE_S)

    def let_go(self, *, drop: bool) -> None:
        """Go on with what is held, or drop it and its connection."""
        self._go.put(drop)

    def close(self) -> None:
        """End it."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                receiver, _ = self._listener.accept()
            except OSError:
                return
            with receiver, socket.socket(socket.AF_UNIX) as ledger, suppress(OSError):
                ledger.connect(str(self._ledger))
                with receiver.makefile("rb") as asked, ledger.makefile("rb") as answered:
                    while (line := asked.readline()).endswith(b"\n"):
                        if not self._pass_on(line, "before", ledger):
                            break
                        if not self._pass_on(answered.readline(), "after", receiver, asked=line):
                            break

    def _pass_on(
        self, line: bytes, where: str, to: socket.socket, *, asked: bytes | None = None
    ) -> bool:
        if self._where == where and b'"append"' in (asked or line):
            self._where = None
            self._held.put(None)
            if self._go.get(timeout=DEADLINE_S):
                return False
        to.sendall(line)
        return True
