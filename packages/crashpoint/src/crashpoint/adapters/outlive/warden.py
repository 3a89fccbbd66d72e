"""A warden that stands outside of the process tree under test: `python -m ... ENGINE SOCKET PID`.

It keeps leases with outlive's own code, but the workers are children of others: each tells its
session on the socket, and pidfds say when it ends. It ends with the process PID, its parent.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from outlive.client import Client
from outlive.supervise.lease import Keeper, confirm_death
from outlive.supervise.parent import die_with
from outlive.supervise.reports import Told

__all__ = ["Watched", "main"]


class Watched:
    """See `outlive.supervise.lease.Process`: one that is nobody's child here."""

    def __init__(self, pid: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._fd = os.pidfd_open(pid)
        self.pid = pid
        self.ended: asyncio.Future[int] = self._loop.create_future()
        self._loop.add_reader(self._fd, self._end)

    @property
    def alive(self) -> bool:
        """Whether it was not seen to end."""
        return not self.ended.done()

    @property
    def stopped(self) -> bool:
        """Whether a signal has stopped it."""
        with suppress(OSError):
            stat = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8")
            return self.alive and stat.rpartition(")")[2].split()[0] == "T"
        return False

    def kill(self) -> None:
        """SIGKILL it."""
        if self.alive:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._fd, signal.SIGKILL)

    def _end(self) -> None:
        self._loop.remove_reader(self._fd)
        os.close(self._fd)
        self.ended.set_result(0)  # its parent knows how


class Warden:
    """The workers that have told of a session, by process."""

    def __init__(self, engine: str) -> None:
        self._engine = engine
        self._keepers: dict[int, Keeper] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One worker's line; answered once its lease is kept."""
        with suppress(ConnectionError):
            peer: socket.socket = writer.get_extra_info("socket")
            pid = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
            session, token, ttl_ms = json.loads(await reader.readline())
            if pid not in self._keepers:
                process = Watched(pid)
                self._keepers[pid] = Keeper(process, self._engine)
                task = asyncio.create_task(self._keep(process, self._keepers[pid]))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            if session:
                self._keepers[pid].hold(Told(pid, session, token, ttl_ms))
            else:
                self._keepers[pid].let_go()
            writer.write(b"\n")
            await writer.drain()
        writer.close()

    async def _keep(self, process: Watched, keeper: Keeper) -> None:
        keeping = asyncio.create_task(keeper.run())
        await process.ended
        keeping.cancel()
        del self._keepers[process.pid]
        if keeper.told is not None:
            await confirm_death(Client(self._engine, timeout_s=2.0), keeper.told)


async def serve(engine: str, path: str, ready: Callable[[], None]) -> None:
    """Keep leases until ended by a signal; `ready` is called when workers may come."""
    warden = Warden(engine)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    async with await asyncio.start_unix_server(warden.hear, path):
        ready()
        await ended.wait()


def main(engine: str, path: str, parent: int, ready_fd: int) -> None:
    """Serve; a line is written to `ready_fd` when workers may come."""
    die_with(parent, signal.SIGKILL)

    def ready() -> None:
        os.write(ready_fd, f"{path}\n".encode())
        os.close(ready_fd)

    asyncio.run(serve(engine, path, ready))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
