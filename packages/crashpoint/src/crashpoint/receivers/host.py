"""The controller's side of a receiver process: start it over a ledger trial, kill it, restart it.

The address is the trial's: it stays the same through restarts, so a subject may keep it.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from crashpoint.receivers.dialect import KEYED, Dialect
from crashpoint.receivers.person import TRUTHFUL, ScriptedPerson
from crashpoint.receivers.receiver import ReceiverFault

__all__ = ["HostFault", "ReceiverHost"]

READY_S: Final = 20.0
STOP_S: Final = 5.0
VARIABLE: Final = "CRASHPOINT_WITNESS_TOKEN"
MODULE: Final = "crashpoint.receivers.server"


class HostFault(RuntimeError):
    """The receiver did not come up or did not answer; the message has its own last words."""


class ReceiverHost:
    """One receiver process at a time, as a context manager or with `start` and `stop`.

    `witness` and `token` give it its ledger trial; `log` receives its stderr; `adopt` is told each
    process id; `faults` befall the n-th changing request to the first process.
    """

    def __init__(
        self,
        receiver: str,
        *,
        witness: Path,
        token: str,
        log: Path,
        dialect: Dialect = KEYED,
        person: ScriptedPerson = TRUTHFUL,
        faults: Sequence[tuple[ReceiverFault, int]] = (),
        delay_s: float = 0.0,
        clock_file: Path | None = None,
        socket: Path | None = None,
        adopt: Callable[[int], None] = lambda _pid: None,
    ) -> None:
        self.receiver = receiver
        self._socket = socket
        self._faults = tuple(faults)
        self._token = token
        self._log = log
        self._adopt = adopt
        self._port = 0
        self._url = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._options = [
            f"--receiver={receiver}",
            f"--dialect={dialect.text()}",
            f"--witness={witness}",
            f"--token-env={VARIABLE}",
            f"--delay-s={delay_s}",
            f"--person-seed={person.seed}",
            f"--person-wrong-rate={person.wrong_rate}",
            *([f"--clock-file={clock_file}"] if clock_file else []),
            *([f"--socket={socket}"] if socket else []),
        ]

    @property
    def url(self) -> str:
        """Where it listens; raises HostFault before the first start."""
        if not self._url:
            raise HostFault(f"the {self.receiver} was not started yet")
        return self._url

    @property
    def pid(self) -> int:
        """Its process id; raises HostFault when it is not running."""
        return self._running().pid

    def environment(self) -> Mapping[str, str]:
        """The variables from which a subject's `connect` knows it."""
        variable = f"CRASHPOINT_{self.receiver.upper()}"
        known = {variable: self.url}
        if self._socket is not None:
            known[f"{variable}_SOCKET"] = f"{self._socket}#{self.url.rpartition('/')[2]}"
        return known

    def start(self) -> None:
        """Start it and wait until it listens. Raises HostFault."""
        if self._process is not None:
            raise HostFault(f"the {self.receiver} is running already")
        faults = [f"--fault={fault}:{nth}" for fault, nth in self._faults]
        self._faults = ()
        with self._log.open("ab") as errors:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    MODULE,
                    *self._options,
                    f"--port={self._port}",
                    *faults,
                ],
                env={**os.environ, VARIABLE: self._token},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        self._adopt(self._process.pid)
        try:
            told = self._hear()
            self._port, self._url = told["port"], told["url"]
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Let it end; does nothing when it is not running."""
        process, self._process = self._process, None
        if process is not None:
            self._await_end(process)

    def kill(self) -> None:
        """SIGKILL it and reap it; does nothing when it is not running."""
        if self._process is not None:
            self._process.kill()
        self.stop()

    def restart(self) -> None:
        """Start it again at the same address, after `kill` or however else it ended."""
        self.kill()
        self.start()

    def wait(self, deadline_s: float = STOP_S) -> int:
        """Wait until it has ended by itself; returns how, as Popen does. Raises HostFault."""
        process = self._running()
        try:
            code = process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            raise HostFault(f"the {self.receiver} runs on after {deadline_s:g} s") from None
        self.stop()
        return code

    def settle(self) -> int:
        """Have it do what `late-accept` kept back; returns how many requests. Raises HostFault."""
        settled: int = self._tell("settle")["settled"]
        return settled

    def begin(self, token: str) -> None:
        """Have it be the receiver of another ledger trial, at another address."""
        self._token = token
        self._url = self._tell(f"trial {token}")["url"]

    def inject(self, fault: ReceiverFault, nth: int = 1) -> None:
        """Have the fault befall the `nth` request from now that changes something."""
        self._tell(f"fault {fault}:{nth}")

    def calm(self) -> None:
        """Have it forget the faults that are still to come."""
        self._tell("calm")

    def heal(self) -> None:
        """As `calm`, and start it again if it has died, or is just dying. Raises HostFault."""
        try:
            self.calm()
        except HostFault:  # a process that was killed answers nothing, whatever is left of it
            self.restart()

    @property
    def has_ended(self) -> bool:
        """Whether it was started and has ended by itself. One that is just dying has not yet."""
        return self._process is not None and self._process.poll() is not None

    def _tell(self, line: str) -> dict[str, Any]:
        stdin = self._running().stdin
        assert stdin is not None
        with suppress(BrokenPipeError):  # it has ended: there will be no answer either
            stdin.write(line.encode() + b"\n")
            stdin.flush()
        return self._hear()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise HostFault(f"the {self.receiver} is not running")
        return self._process

    def _hear(self) -> dict[str, Any]:
        stdout = self._running().stdout
        assert stdout is not None
        deadline, line = time.monotonic() + READY_S, b""
        while not line.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([stdout], [], [], left)[0]:
                raise HostFault(f"the {self.receiver} said nothing within {READY_S:g} s")
            more = os.read(stdout.fileno(), 65_536)
            if not more:
                raise HostFault(f"the {self.receiver} ended: {self._last_words()}")
            line += more
        told: dict[str, Any] = json.loads(line)
        return told

    def _last_words(self) -> str:
        lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    @staticmethod
    def _await_end(process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        # Not by closing its input alone: a process forked meanwhile may hold the other end open.
        process.terminate()
        with suppress(BrokenPipeError):  # what it was told last and did not read
            process.stdin.close()
        process.stdout.close()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
