"""A real ledger for tests, and peers that speak to it: raw ones, and the real client elsewhere."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Self

from crashpoint.canonical import parse
from crashpoint.ledger.book import FILE_NAME, lines_in
from crashpoint.ledger.control import Ledger

DEADLINE_S = 20.0
"""Longest wait for anything."""
FULL_S = 0.5
"""A far end that takes nothing for so long takes no more."""


@asynccontextmanager
async def running(folder: Path, **options: Any) -> AsyncIterator[Ledger]:
    """A ledger over two new folders; its daemon is gone afterwards."""
    for name in ("book", "sockets"):
        (folder / name).mkdir()
    ledger = await Ledger.start(folder / "book", folder / "sockets", **options)
    try:
        yield ledger
    finally:
        await ledger.close()
        assert ledger._process.returncode is not None


def in_file(ledger: Ledger) -> list[dict[str, Any]]:
    """The records in the ledger's file now."""
    return [parse(line) for line in lines_in(ledger.folder / FILE_NAME)]


def attempt(token: str, **members: Any) -> bytes:
    """A subject's line; `id` is drawn unless given."""
    whole = {"trial": token, "id": os.urandom(8).hex(), "effect": "charge", "action": 1, **members}
    return json.dumps(whole).encode() + b"\n"


class Peer:
    """A connection that says whatever it is told to."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(DEADLINE_S)
        self._unread = b""
        try:
            self._socket.connect(str(path))
        except OSError:
            self._socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def say(self, data: bytes) -> None:
        self._socket.sendall(data)

    def fill(self, data: bytes, limit: int) -> int:
        """Say it over and over until the far end takes no more, hangs up, or took `limit` bytes.

        Returns how many bytes it took.
        """
        self._socket.settimeout(FULL_S)
        sent = 0
        with suppress(TimeoutError, ConnectionError):
            while sent < limit:
                sent += self._socket.send(data[sent % len(data) :])
        self._socket.settimeout(DEADLINE_S)
        return sent

    def stop_saying(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)

    def hear(self) -> dict[str, Any] | None:
        """The next reply, or None when it was hung up on."""
        while b"\n" not in self._unread:
            try:
                more = self._socket.recv(65536)
            except ConnectionError:
                more = b""
            if not more:
                assert not self._unread, "a reply is whole or not there"
                return None
            self._unread += more
        line, _, self._unread = self._unread.partition(b"\n")
        reply: dict[str, Any] = json.loads(line)
        return reply

    def ask(self, line: bytes) -> dict[str, Any] | None:
        with suppress(ConnectionError):  # hung up on: there may be a reply all the same
            self.say(line)
        return self.hear()


async def python(code: str, *arguments: str, **env: str) -> list[Any]:
    """Run code in a process of its own; returns the JSON lines it printed."""
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        env={**os.environ, **env},
        check=True,
        timeout=DEADLINE_S,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def subject_env(ledger: Ledger, token: str) -> dict[str, str]:
    """What a subject finds in its environment."""
    return {"CRASHPOINT_LEDGER": str(ledger.invoke_socket), "CRASHPOINT_TRIAL": token}


async def seconds(limit: float, *waits: Any) -> Sequence[Any]:
    """Await all of them within a limit."""
    async with asyncio.timeout(limit):
        return await asyncio.gather(*waits)
