"""The processes that benchmarks/runtime.py measures, their client, and the machine's own rate."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import apsw

APP: Final = Path(__file__).with_name("runtime_app.py")
ENGINE: Final = """
import sys
from outlive.server.main import Options, run
run(Options(store=sys.argv[1], port=0), lambda url: print(url, flush=True))
"""
TICKS: Final = os.sysconf("SC_CLK_TCK")
PAGE: Final = os.sysconf("SC_PAGE_SIZE")
ENDED_S: Final = 15


@dataclass
class Program:
    """A process of ours and its output."""

    process: subprocess.Popen[str]

    @classmethod
    def start(cls, command: Sequence[str], adopt: Callable[[int], None]) -> Self:
        """Start it; `adopt` is told its pid."""
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        adopt(process.pid)
        return cls(process)

    async def line(self) -> str:
        """The next line that it says."""
        assert self.process.stdout
        said = await asyncio.to_thread(self.process.stdout.readline)
        if not said:
            raise RuntimeError(f"{self.process.args!r} ended with {self.process.wait()}")
        return said.rstrip("\n")

    def cpu_s(self) -> float:
        """Seconds that it had a core."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def memory(self) -> int:
        """Bytes resident."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * PAGE

    def stop(self) -> None:
        """End it and wait."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(ENDED_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        assert self.process.stdout
        self.process.stdout.close()


@dataclass
class Worker:
    """A runner that is connected, and what its session is called."""

    program: Program
    session: str
    token: str


class Rig:
    """An engine on a file of its own, its runners, and the file with the marks of the bodies."""

    def __init__(self, folder: Path, adopt: Callable[[int], None], engine: Program) -> None:
        self.folder = folder
        self.engine = engine
        self.url = ""
        self.marks_file = folder / "marks"
        self.workers: list[Worker] = []
        self._adopt = adopt

    @classmethod
    @contextlib.asynccontextmanager
    async def running(
        cls, folder: Path, adopt: Callable[[int], None], *, workers: int = 1
    ) -> AsyncIterator[Self]:
        """Start all of it, and end all of it."""
        store = f"sqlite:///{folder}/outlive.db"
        rig = cls(folder, adopt, Program.start([sys.executable, "-c", ENGINE, store], adopt))
        try:
            rig.url = await rig.engine.line()
            for _ in range(workers):
                await rig.add_worker()
            yield rig
        finally:
            for worker in rig.workers:
                worker.program.stop()
            rig.engine.stop()

    async def add_worker(self) -> Worker:
        """Start a runner; return when it is connected."""
        command = [sys.executable, str(APP), self.url, str(self.marks_file)]
        program = Program.start(command, self._adopt)
        session, token, _ = (await program.line()).split()
        worker = Worker(program, session, token)
        self.workers.append(worker)
        return worker

    def marks(self) -> list[tuple[int, int, str, int]]:
        """What bodies said: nanoseconds, process, run, step."""
        if not self.marks_file.exists():
            return []
        lines = (line.split() for line in self.marks_file.read_text().splitlines())
        return [(int(at), int(pid), run, int(step)) for at, pid, run, step in lines]

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """A connection to the engine's API."""
        host, port = self.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            yield Client(reader, writer)
        finally:
            writer.close()
            await writer.wait_closed()


class Client:
    """One kept connection: a request at a time, and nothing that costs more than it must."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def ask(self, method: str, path: str, **body: Any) -> dict[str, Any]:
        """The answer; raises RuntimeError when it is a refusal."""
        data = json.dumps(body).encode() if body else b""
        head = f"{method} {path} HTTP/1.1\r\nhost: engine\r\ncontent-length: {len(data)}\r\n\r\n"
        self._writer.write(head.encode() + data)
        told = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        size = int(told.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        answer: dict[str, Any] = json.loads(await self._reader.readexactly(size))
        if not told.startswith(b"http/1.1 20"):
            raise RuntimeError(f"{method} {path}: {answer}")
        return answer

    async def start(self, workflow: str, given: Any) -> str:
        """Start a run; its id."""
        answer = await self.ask("POST", "/v1/runs", app="bench", workflow=workflow, input=given)
        return str(answer["id"])

    async def finished(self, run: str) -> None:
        """Return when it is completed; raises RuntimeError when it ended otherwise."""
        while True:
            answer = await self.ask("GET", f"/v1/runs/{run}?wait=60")
            if answer["state"] == "completed":
                return
            if answer["state"] not in {"queued", "running", "waiting"}:
                raise RuntimeError(f"run {run} is {answer['state']}: {answer}")


def commits_ms(folder: Path, number: int) -> list[float]:
    """Milliseconds of each of so many synced SQLite commits of one row, set up as the engine's."""
    path = folder / "commits.db"
    connection = apsw.Connection(str(path))
    connection.pragma("locking_mode", "EXCLUSIVE")
    connection.pragma("journal_mode", "WAL")
    connection.pragma("synchronous", "FULL")
    connection.execute("CREATE TABLE one (id INTEGER PRIMARY KEY, body BLOB)")
    body = b"x" * 100
    took = []
    for _ in range(number):
        began = time.perf_counter()
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO one (body) VALUES (?)", (body,))
        connection.execute("COMMIT")
        took.append((time.perf_counter() - began) * 1000)
    connection.close()
    path.unlink()
    return took


def syncs_ms(folder: Path, number: int) -> list[float]:
    """Milliseconds of each of so many appends of 200 bytes with fdatasync."""
    path = folder / "syncs"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    record = b"x" * 200
    took = []
    for _ in range(number):
        began = time.perf_counter()
        os.write(fd, record)
        os.fdatasync(fd)
        took.append((time.perf_counter() - began) * 1000)
    os.close(fd)
    path.unlink()
    return took


def quantile(values: Sequence[float], at: float) -> float:
    """The value that a share `at` of them do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(at * len(ordered)))]


def median(values: Sequence[float]) -> float:
    """The middle one."""
    return statistics.median(values)
