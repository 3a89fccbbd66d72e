"""Real processes of ours: started, listened to line by line, signalled by pid, and ended."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from outlive.client import ApiRefused, Client, EngineAway

LIMIT_S = 60.0


class Program:
    """A process whose output, standard error included, is read as it comes."""

    def __init__(
        self, command: Sequence[str], *, cwd: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self.lines: list[str] = []
        self._changed = threading.Condition()
        self._over = False
        self.process = subprocess.Popen(
            [sys.executable, "-m", "outlive", *command],
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def output(self) -> str:
        return "".join(self.lines)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                self.lines.append(line)
                self._changed.notify_all()
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def said(self, pattern: str, *, times: int = 1) -> re.Match[str]:
        """Wait for the line; the match of the last one that was asked for."""
        found: list[re.Match[str]] = []

        def there() -> bool:
            found[:] = [m for line in self.lines if (m := re.search(pattern, line))]
            return len(found) >= times or self._over

        with self._changed:
            self._changed.wait_for(there, LIMIT_S)
        assert len(found) >= times, f"no {pattern!r} ({times}) in:\n{self.output}"
        return found[times - 1]

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        """Its exit status, with all of its output read."""
        status = self.process.wait(LIMIT_S)
        self._reader.join(LIMIT_S)
        return status

    def end(self) -> None:
        """Whatever it is doing."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._reader.join(LIMIT_S)
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextlib.contextmanager
def program(*command: str, cwd: Path, env: Mapping[str, str] | None = None) -> Iterator[Program]:
    """`outlive COMMAND`, ended at the end."""
    one = Program(command, cwd=cwd, env=env)
    try:
        yield one
    finally:
        one.end()


class Up:
    """`outlive up` as it tells of itself."""

    def __init__(self, process: Program) -> None:
        self.program = process

    @property
    def client(self) -> Client:
        return Client(self.program.said(r"engine (http\S+), process")[1])

    def engine(self, *, life: int = 1) -> int:
        return int(self.program.said(r"engine http\S+, process (\d+)", times=life)[1])

    def worker(self, runner: int = 1, *, life: int = 1) -> tuple[int, int]:
        """Worker and warden."""
        pattern = rf"runner-{runner}: worker (\d+) of warden (\d+) is ready"
        found = self.program.said(pattern, times=life)
        return int(found[1]), int(found[2])

    def holder(self, run: str) -> tuple[int, int]:
        """Worker and warden of the runner that has the run, in its first life."""
        found = until(lambda: self.client.run(run).get("holder"))
        return self.worker(int(found.removeprefix("runner-")))


@contextlib.contextmanager
def up(
    app: Path, *options: str, cwd: Path, runners: int = 2, env: Mapping[str, str] | None = None
) -> Iterator[Up]:
    """`outlive up` on a free port, with every runner ready."""
    command = ["up", str(app), "--listen", "127.0.0.1:0", "--runners", str(runners), *options]
    with program(*command, cwd=cwd, env=env) as one:
        found = Up(one)
        for n in range(runners):
            found.worker(n + 1)
        yield found


def until(holds: Callable[[], Any], *, limit_s: float = LIMIT_S) -> Any:
    """Ask until the answer is yes; an engine that is away has none."""
    end_s = time.monotonic() + limit_s
    while time.monotonic() < end_s:
        with contextlib.suppress(EngineAway, ApiRefused):
            if found := holds():
                return found
    raise AssertionError(f"it did not come in {limit_s:g} s")


@contextlib.contextmanager
def watched(*pids: int) -> Iterator[Callable[[float], None]]:
    """What is yielded waits for the end of all those processes, by handle and not by number."""
    handles = [os.pidfd_open(pid) for pid in pids]

    def gone(limit_s: float) -> None:
        end_s = time.monotonic() + limit_s
        for handle, pid in zip(handles, pids, strict=True):
            left_s = max(0.0, end_s - time.monotonic())
            assert select.select([handle], [], [], left_s)[0], f"{pid} lives after {limit_s} s"

    try:
        yield gone
    finally:
        for handle in handles:
            os.close(handle)


def lines(path: Path) -> list[str]:
    """What bodies have written there so far."""
    return path.read_text().splitlines() if path.exists() else []


def written(path: Path, number: int) -> list[str]:
    """Wait for so many lines."""
    return until(lambda: found if len(found := lines(path)) >= number else None)
