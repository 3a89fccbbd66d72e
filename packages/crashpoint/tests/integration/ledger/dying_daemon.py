"""The real daemon, except that it kills itself at one of its writes.

argv: where (before, half, after, synced), at which write (1, 2, ...), then the daemon's own.
"""

import os
import signal
import sys
from collections.abc import Sequence

from crashpoint.ledger import daemon
from crashpoint.ledger.book import Book

WHERE, NUMBER = sys.argv[1], int(sys.argv[2])


class Dying(Book):
    """Dies before, half-way through or after its write of that number, or once that is synced."""

    writes = 0

    def append(self, lines: Sequence[bytes]) -> None:
        self.writes += 1
        super().append(lines)

    def _write(self, block: bytes) -> None:
        self._die_at("before")
        if WHERE == "half" and self.writes == NUMBER:
            super()._write(block[: len(block) // 2])
            self._die_at("half")
        super()._write(block)
        self._die_at("after")

    def _sync(self) -> None:
        super()._sync()
        self._die_at("synced")

    def _die_at(self, where: str) -> None:
        if where == WHERE and self.writes == NUMBER:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(daemon.main(sys.argv[3:], open_book=Dying))
