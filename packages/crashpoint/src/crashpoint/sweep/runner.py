"""The process that runs a sweep's real processes: one at a time, killed and reaped from outside.

It is forked once from the caller and is the reaper of everything below it, so that whatever a job
starts, daemons included, is found and ended before the next process begins.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any, BinaryIO, Final, NoReturn, Protocol

from crashpoint.inside import tree
from crashpoint.sweep.words import Process, SweepFault, When

__all__ = ["Executor", "Order", "Runner", "how_it_ended", "kill_below", "told"]

PR_SET_PDEATHSIG: Final = 1
PR_SET_CHILD_SUBREAPER: Final = 36


@dataclass(frozen=True)
class Order:
    """One process to run: which entry, where to crash it (0: nowhere), in which folder."""

    resume: bool
    at: int
    folder: str
    env: Mapping[str, str]
    limit_s: float
    fail: bool = False
    """Have a write fail at the point instead."""


class Executor(Protocol):
    """How a process of the job is run, in the runner."""

    def run(self, order: Order) -> dict[str, Any]:
        """Run it, kill it at its point, and reap it; the answer is made by `told`."""
        ...


class Runner:
    """The runner as the caller sees it. Use `close` at the end.

    Raises SweepFault when this process has other threads: a child forked beside one can find a lock
    that is never released.
    """

    def __init__(self, executor: Executor) -> None:
        others = [t.name for t in threading.enumerate() if t is not threading.current_thread()]
        # Workers of pytest-xdist have one thread, which only waits for its socket.
        others = [name for name in others if not name.startswith(("execnet", "Dummy"))]
        if others:
            raise SweepFault(
                f"cannot fork beside other threads ({', '.join(others)}): end them first, or sweep "
                "with --crash-mode raise"
            )
        # A stream, because a datagram holds no long list of points.
        self._ours, theirs = socket.socketpair()
        self._answers = self._ours.makefile("rb")
        gc.collect()
        gc.freeze()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                self._answers.close()
                self._ours.close()
                _serve(theirs, executor)
            finally:
                os._exit(70)
        gc.unfreeze()
        theirs.close()

    def run(self, order: Order, meanwhile: Callable[[], None] = lambda: None) -> Process:
        """Run one process, and `meanwhile` beside it; raises SweepFault when the runner is gone."""
        try:
            self._ours.sendall(json.dumps(vars(order)).encode() + b"\n")
            meanwhile()
            answer = self._answers.readline()
        except OSError:
            answer = b""
        if not answer.endswith(b"\n"):
            raise SweepFault("the process that runs the scenarios died")
        heard = json.loads(answer)
        if "fault" in heard:
            raise SweepFault(heard["fault"])
        return Process(**{**heard, "when": When(heard["when"])})

    def close(self) -> None:
        """End the runner and everything below it, whatever it is doing."""
        self._answers.close()
        self._ours.close()
        with suppress(ChildProcessError, ProcessLookupError):
            os.kill(self._pid, signal.SIGTERM)
            os.waitpid(self._pid, 0)


def told(
    when: When,
    passed: list[str] | None = None,
    *,
    said: str = "",
    result: Any = None,
    places: list[str] | None = None,
    calls: list[tuple[str, str]] | None = None,
) -> dict[str, Any]:
    """An answer, with the fields of Process."""
    return {
        "when": when,
        "passed": passed or [],
        "said": said,
        "result": result,
        "places": places or [],
        "calls": calls or [],
    }


def how_it_ended(code: int) -> str:
    """An exit code in words."""
    return f"it died of signal {-code}" if code < 0 else f"it left with exit status {code}"


def kill_below() -> None:
    """SIGKILL everything below this process, stopped first so that nothing escapes by forking."""
    for pid in tree.stop_all(os.getpid()):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _serve(control: socket.socket, executor: Executor) -> NoReturn:
    # A session of its own: Ctrl-C is the caller's, and must not look like a job that failed.
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # Not SIGKILL: what runs below has to be ended when the caller is killed.
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    orders: BinaryIO = control.makefile("rb")
    while line := orders.readline():
        try:
            answer = executor.run(Order(**json.loads(line)))
        except SweepFault as fault:
            answer = {"fault": str(fault)}
        _reap()
        control.sendall(json.dumps(answer).encode() + b"\n")
    os._exit(0)


def _leave(_number: int, _frame: FrameType | None) -> NoReturn:
    kill_below()
    os._exit(0)


def _reap() -> None:
    """End what a process left behind, and take note of every end."""
    with suppress(ChildProcessError):
        while True:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                kill_below()
                os.wait()
