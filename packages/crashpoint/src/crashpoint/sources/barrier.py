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


class PointSocket:
    """The listening socket. `async with PointSocket(path) as points:`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._queues: dict[str, asyncio.Queue[Reached]] = {}
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
        queue = self._queues.setdefault(token, asyncio.Queue())
        return BarrierSource(self, token, barriers, queue)

    def forget(self, token: str) -> None:
        """Refuse the token from now on."""
        self._queues.pop(token, None)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
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
        while True:
            try:
                line = await reader.readline()
            except ValueError:
                line = b"too long\n"
            if not line.endswith(b"\n"):
                return
            queue, name = self._read(line)
            if queue is None:
                answer: dict[str, object] = {"error": name}
            else:
                passed[name] += 1
                point = Point("barrier", name, passed[name])
                future = asyncio.get_running_loop().create_future()
                queue.put_nowait(Reached(point, pid, future))
                answer = await future
            writer.write(json.dumps(answer).encode() + b"\n")

    def _read(self, line: bytes) -> tuple[asyncio.Queue[Reached] | None, str]:
        try:
            request = parse(line)
            queue, name = self._queues.get(request["trial"]), request["point"]
        except (NotCanonical, TypeError, KeyError):
            return None, 'an announcement is one line {"trial": TOKEN, "point": NAME}'
        if queue is None or not isinstance(name, str):
            return None, "no open trial for this token"
        return queue, name


class BarrierSource:
    """The announcements of one trial's processes."""

    def __init__(
        self,
        points: PointSocket,
        token: str,
        barriers: Sequence[str],
        queue: asyncio.Queue[Reached],
    ) -> None:
        self._points = points
        self._token = token
        self._barriers = barriers
        self._queue = queue

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
