"""Sees whether a run has left anything behind: processes, sockets, folders, names, drafts.

Processes are found by a variable in the environment they were started with, which everything that a
run starts inherits, daemons included; so a run cannot lose one by detaching it.
"""

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from crashpoint.harness.lock import name_lock

__all__ = ["GONE_S", "Place", "nothing_left"]

HERE = Path(__file__).parent
GONE_S = 10.0
"""Longest a run may take to vanish once its harness has ended, killed or not."""


class Place:
    """Where one run happens: `tmp` is its TMPDIR, `out` its --out, `env` its environment.

    `mark` is the part of it that a run inside this process needs.
    """

    def __init__(self, folder: Path) -> None:
        self.tmp = folder / "t"
        self.out = folder / "o"
        self.tmp.mkdir()
        self.out.mkdir()
        self._mark = f"CRASHPOINT_TEST={uuid4().hex}"
        name, _, value = self._mark.partition("=")
        # So that what is started finds this folder's modules, in front of what it finds anyway.
        path = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))
        self.mark = {name: value, "TMPDIR": str(self.tmp)}
        self.env = {**os.environ, **self.mark, "CI": "1", "PYTHONPATH": path}

    def start(self, *command: str, program=sys.executable, **options) -> subprocess.Popen[str]:
        """Start `python ...` in this place, in a process group of its own."""
        given = {"cwd": self.out.parent, "env": self.env, "text": True, "start_new_session": True}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen([program, *command], **(given | pipes | options))

    def run(self, *command: str, **options) -> subprocess.CompletedProcess[str]:
        """Start it and wait for its end."""
        process = self.start(*command, **options)
        return finished(process)

    def processes(self) -> dict[int, str]:
        """What was started in this place and is alive: command lines by process id."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if self._mark.encode() in (folder / "environ").read_bytes().split(b"\0"):
                    line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    found[int(folder.name)] = line
        return found

    def process(self, part: str) -> int:
        """The one process with `part` in its command line."""
        (pid,) = [pid for pid, line in self.processes().items() if part in line]
        return pid

    def left(self) -> list[str]:
        """What is there that a finished run does not leave, waited for until GONE_S."""
        return [
            *self._left_processes(),
            *(f"in TMPDIR: {path.name}" for path in self.tmp.iterdir()),
            *(f"draft: {path.name}" for path in self.out.glob(".*")),
            *self._left_sockets(),
        ]

    def _left_processes(self) -> list[str]:
        deadline = time.monotonic() + GONE_S
        while alive := self.processes():
            if not all(ended(pid, deadline) for pid in alive):
                return [f"alive: {pid} {line}" for pid, line in alive.items()]
        return []

    def _left_sockets(self) -> list[str]:
        table = Path("/proc/net/unix").read_text(encoding="utf-8", errors="replace")
        held = [line for line in table.splitlines() if str(self.tmp) in line]
        for evidence in self.out.glob("*.json"):
            with name_lock(evidence):
                pass
        return [f"socket: {line.split()[-1]}" for line in held]

    def clear(self) -> None:
        """End what is left, so that a test that fails does not trouble the next one."""
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def ended(pid: int, deadline: float) -> bool:
    """Wait until a process has ended; False when it has not by then."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        poller = select.poll()
        poller.register(fd, select.POLLIN)
        return bool(poller.poll(max(0.0, deadline - time.monotonic()) * 1000))
    finally:
        os.close(fd)


def finished(process: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
    """Wait for the end of what `Place.start` started."""
    out, err = process.communicate(timeout=60)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@contextmanager
def nothing_left() -> Iterator[Place]:
    """A place for one run; at the end it asserts that the run has left nothing but its files."""
    folder = Path(tempfile.mkdtemp(prefix="cp-", dir="/tmp"))  # short: socket paths must fit
    place = Place(folder)
    try:
        yield place
        assert place.left() == []
    finally:
        place.clear()
        shutil.rmtree(folder, ignore_errors=True)
