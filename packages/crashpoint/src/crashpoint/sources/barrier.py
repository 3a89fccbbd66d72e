"""Barriers: the subject announces a named point on a Unix socket and waits for the answer.

One socket serves all trials of a run; the token in the announcement says which one it is about. The
wire is one JSON line each way (`docs/wire.md`).
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from crashpoint.canonical import NotCanonical, parse
from crashpoint.pipeline.contract import Launch
from crashpoint.pipeline.points import Point, Reached

__all__ = ["BarrierSource", "PointSocket"]

LINE_MAX: Final = 1 << 16
CONNECTIONS_MAX: Final = 512
"""Peers served at once; one more is hung up on."""


class PointSocket:
    """The listening socket. `async with PointSocket(path) as points:`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._sources: dict[str, BarrierSource] = {}
        self._serving: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Self:
        """Start listening."""
        self._server = await asyncio.start_unix_server(
            self._serve, str(self.path), limit=LINE_MAX, backlog=1024
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop listening and hang up."""
        self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        await self._server.wait_closed()

    def source(self, token: str, barriers: Sequence[str]) -> BarrierSource:
        """The points that the holder of `token` announces."""
        return self._sources.setdefault(token, BarrierSource(self, token, barriers))

    def forget(self, token: str) -> None:
        """Refuse the token from now on, and let go of who still waits under it."""
        source = self._sources.pop(token, None)
        if source is not None:
            source.release_all()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._serving) >= CONNECTIONS_MAX:
            writer.close()
            return
        self._serving.add(task)
        # Peers are killed in the middle of anything, and the server is closed under waiting ones.
        with suppress(ConnectionError, asyncio.CancelledError):
            await self._converse(reader, writer)
        self._serving.discard(task)
        writer.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer: socket.socket = writer.get_extra_info("socket")
        pid = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
        passed: Counter[str] = Counter()
        line = await _line(reader)
        while line.endswith(b"\n"):
            try:
                source, name = self._read(line)
            except Refused as refusal:
                answer: dict[str, object] = {"error": str(refusal)}
            else:
                passed[name] += 1
                answer = await source.announce(Point("barrier", name, passed[name]), pid)
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()  # a peer that does not read its answers gets no more of them
            line = await _line(reader)

    def _read(self, line: bytes) -> tuple[BarrierSource, str]:
        try:
            request = parse(line)
            token, name = request["trial"], request["point"]
        except (NotCanonical, TypeError, KeyError):
            token = name = None
        if not isinstance(token, str) or not isinstance(name, str):
            raise Refused('an announcement is one line {"trial": TOKEN, "point": NAME}')
        source = self._sources.get(token)
        if source is None:
            raise Refused("no open trial for this token")
        known = [point.name for point in source.known()]
        if name not in known:
            raise Refused(f"no point {name[:80]!r}; there are {', '.join(known)}")
        return source, name


class Refused(Exception):
    """An announcement that is answered with an error; str() is the answer."""


async def _line(reader: asyncio.StreamReader) -> bytes:
    """The next line; what is longer than LINE_MAX ends the conversation like a hang-up."""
    with suppress(ValueError):
        return await reader.readline()
    return b""


class BarrierSource:
    """The announcements of one trial's processes."""

    def __init__(self, points: PointSocket, token: str, barriers: Sequence[str]) -> None:
        self._points = points
        self._token = token
        self._barriers = barriers
        self._queue: asyncio.Queue[Reached] = asyncio.Queue()

    def known(self) -> Sequence[Point]:
        """The barriers, in the order in which a run passes them."""
        return [Point("barrier", name) for name in self._barriers]

    def attach(self, launch: Launch) -> Launch:
        """Tell the process where to announce and for which trial."""
        env = {
            **launch.env,
            "CRASHPOINT_POINTS": str(self._points.path),
            "CRASHPOINT_TRIAL": self._token,
        }
        return dataclasses.replace(launch, env=env)

    async def reached(self) -> AsyncIterator[Reached]:
        """Announcements in the order of their arrival."""
        while True:
            yield await self._queue.get()

    async def announce(self, point: Point, pid: int) -> dict[str, object]:
        """Say that the process stands at the point; returns the answer it is to get."""
        future = asyncio.get_running_loop().create_future()
        self._queue.put_nowait(Reached(point, pid, future))
        answer: dict[str, object] = await future
        return answer

    def release_all(self) -> None:
        """Let go of every announcement that nobody asked for."""
        while not self._queue.empty():
            self._queue.get_nowait().release()
