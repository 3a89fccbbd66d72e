"""The controller's side of the ledger: start the daemon, open trials, seal them, notice its death.

The daemon is reached over an inherited socket pair, which no other process can name. Head and
count of every trial are remembered here, so a chain that was shortened or re-hashed does not fit
them; so is how much of the file was acknowledged, for the time when no daemon holds it.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from crashpoint.canonical import GENESIS
from crashpoint.ledger.chain import Record, SealedChain, trial_key
from crashpoint.ledger.tally import Tally

__all__ = ["Ledger", "LedgerFault", "LedgerTrial"]

REPLY_MAX: Final = 1 << 30
READY_S: Final = 20.0
"""Longest wait for the daemon to come up, seconds."""
ANSWER_S: Final = 60.0
"""Longest wait for an answer: a daemon that something has stopped must not stop the run."""
LEAVE_S: Final = 10.0
"""Longest wait for the daemon to end by itself, seconds."""
SAID_MAX: Final = 1 << 16
DAEMON: Final = (sys.executable, "-P", "-m", "crashpoint.ledger.daemon")


class LedgerFault(RuntimeError):
    """The ledger is gone or contradicts itself; nothing it has not sealed can be certified."""


class LedgerTrial:
    """One open trial. `token` lets a subject invoke, `witness` lets a receiver append and read."""

    def __init__(self, ledger: Ledger, name: str) -> None:
        self.name = name
        self.token = secrets.token_hex(16)
        self.witness = secrets.token_hex(16)
        self._ledger = ledger
        self._count = 0
        self._head = GENESIS

    @property
    def key(self) -> bytes:
        """MAC key of this trial, 32 bytes."""
        return trial_key(self._ledger.run_key, self.name)

    async def peek(self) -> Sequence[Record]:
        """The records so far. Raises LedgerFault."""
        reply = await self._ledger.ask({"do": "peek", "trial": self.name})
        return self._remember(reply["records"])

    async def seal(self, note: str) -> SealedChain:
        """End the trial; `note` (a digest of what the controller saw) is in the last record."""
        reply = await self._ledger.ask({"do": "seal", "trial": self.name, "note": note})
        self._ledger.forget(self)
        records = self._remember(reply["records"])
        return SealedChain(self.name, self.key, reply["head"], reply["count"], records)

    def _remember(self, records: Sequence[Record]) -> Sequence[Record]:
        known = records[self._count - 1]["hash"] if 0 < self._count <= len(records) else GENESIS
        if len(records) < self._count or known != self._head:
            raise LedgerFault(
                f"trial {self.name}: the ledger held {self._count} records with head "
                f"{self._head[:12]} before and does not any more"
            )
        self._count, self._head = len(records), records[-1]["hash"]
        return records


class Ledger:
    """A running daemon. Use `await Ledger.start(...)`, then `close`.

    `died` is set once the daemon has ended, wanted or not.
    """

    def __init__(
        self,
        folder: Path,
        sockets: Path,
        *,
        run_key: bytes,
        invoke_mode: int,
        adopt: Callable[[int], None],
    ) -> None:
        self.folder = folder
        self.sockets = sockets
        self.run_key = run_key
        self.invoke_socket = sockets / "invoke.sock"
        self.witness_socket = sockets / "witness.sock"
        self.died = asyncio.Event()
        self._mode = invoke_mode
        self._adopt = adopt
        self._open: dict[str, LedgerTrial] = {}
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._seq = 0
        self._said: Sequence[str] = ()
        self._tally = Tally.shared()

    @classmethod
    async def start(
        cls,
        folder: Path,
        sockets: Path,
        *,
        run_key: bytes | None = None,
        invoke_mode: int = 0o600,
        adopt: Callable[[int], None] = lambda _pid: None,
        command: Sequence[str] = DAEMON,
    ) -> Ledger:
        """Start a daemon over `folder` (its file) and `sockets`; both must exist.

        `adopt` is told its process id. Raises LedgerFault when it does not come up.
        """
        ledger = cls(
            folder,
            sockets,
            run_key=run_key or secrets.token_bytes(32),
            invoke_mode=invoke_mode,
            adopt=adopt,
        )
        try:
            await ledger._launch(command)
        except LedgerFault:
            await ledger.close()
            raise
        return ledger

    @property
    def pid(self) -> int:
        """Process id of the daemon."""
        return self._process.pid

    async def open(self, name: str) -> LedgerTrial:
        """Open a trial under a name used once per run; raises LedgerFault."""
        trial = LedgerTrial(self, name)
        await self._announce(trial)
        self._open[name] = trial
        return trial

    async def restart(self, command: Sequence[str] = DAEMON) -> None:
        """Start a new daemon over the same file after the old one died; open trials go on.

        Raises LedgerFault when the file does not hold what it held before.
        """
        await self._leave()
        self.died = asyncio.Event()
        await self._launch(command)
        for trial in self._open.values():
            await self._announce(trial)

    async def close(self) -> None:
        """Let the daemon end and wait for it; one that does not end is killed."""
        await self._leave()
        if self._tally != -1:
            os.close(self._tally)
            self._tally = -1

    async def _leave(self) -> None:
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()
        try:
            await asyncio.to_thread(self._process.wait, LEAVE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
        await self._reader_task

    def forget(self, trial: LedgerTrial) -> None:
        """Drop a sealed trial."""
        self._open.pop(trial.name, None)

    async def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """One admin request and its reply; raises LedgerFault for an error or a dead daemon."""
        if self.died.is_set():
            raise LedgerFault(self._why())
        self._seq += 1
        future = self._expect(self._seq)
        self._writer.write(json.dumps({**request, "seq": self._seq}).encode() + b"\n")
        reply = await self._within(future, ANSWER_S)
        if "error" in reply:
            raise LedgerFault(f"ledger: {reply['error']}")
        return reply

    async def _announce(self, trial: LedgerTrial) -> None:
        await self.ask(
            {
                "do": "open",
                "trial": trial.name,
                "key": trial.key.hex(),
                "invoke": trial.token,
                "witness": trial.witness,
            }
        )

    async def _launch(self, command: Sequence[str]) -> None:
        ours, theirs = socket.socketpair()
        # In memory: what a daemon says about a full disk must not need that disk.
        errors = os.memfd_create("crashpoint-ledger-stderr")
        with theirs:
            self._process = subprocess.Popen(
                [
                    *command,
                    f"--folder={self.folder}",
                    f"--sockets={self.sockets}",
                    f"--admin-fd={theirs.fileno()}",
                    f"--tally-fd={self._tally}",
                    f"--invoke-mode={self._mode:o}",
                ],
                pass_fds=(theirs.fileno(), self._tally),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )
        self._adopt(self._process.pid)
        reader, self._writer = await asyncio.open_connection(sock=ours, limit=REPLY_MAX)
        ready = self._expect(0)
        self._reader_task = asyncio.create_task(self._read(reader, errors))
        try:
            await self._within(ready, READY_S)
        except LedgerFault:
            self._process.kill()
            await self._leave()
            raise

    def _expect(self, seq: int) -> asyncio.Future[dict[str, Any]]:
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[seq] = future
        return future

    async def _within(
        self, future: asyncio.Future[dict[str, Any]], limit_s: float
    ) -> dict[str, Any]:
        try:
            # Not `wait_for`: until Python 3.12 it may swallow a cancellation.
            async with asyncio.timeout(limit_s):
                return await future
        except TimeoutError:
            raise LedgerFault(
                f"the ledger (process {self.pid}) did not answer within {limit_s:.0f} s: "
                "it is stopped, or its disk is"
            ) from None

    async def _read(self, reader: asyncio.StreamReader, errors: int) -> None:
        with suppress(ConnectionError):
            async for line in reader:
                # A daemon killed while it answers leaves half a line.
                if line.endswith(b"\n"):
                    reply = json.loads(line)
                    future = self._waiting.pop(reply["seq"], None)
                    if future is not None and not future.done():
                        future.set_result(reply)
        await asyncio.to_thread(self._process.wait)
        self._said = os.pread(errors, SAID_MAX, 0).decode(errors="replace").strip().splitlines()
        os.close(errors)
        self.died.set()
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(LedgerFault(self._why()))

    def _why(self) -> str:
        return self._said[-1] if self._said else f"the ledger died (exit {self._process.poll()})"
