"""A real ledger daemon for tests that are not asynchronous, and receiver processes over it."""

import asyncio
import itertools
import threading
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from crashpoint.ledger.control import Ledger, LedgerTrial
from crashpoint.procs.run_folder import RunFolder, run_folder
from crashpoint.receivers.host import ReceiverHost

__all__ = ["DEADLINE_S", "Bench", "bench"]

DEADLINE_S = 30.0


class Bench:
    """A run's folder and its ledger, whose loop turns in a thread of its own."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._numbers = itertools.count(1)
        self.ledger: Ledger = self.wait(
            Ledger.start(folder.sub("ledger"), folder.sub("sockets"), adopt=folder.adopt)
        )

    def wait(self, work: Awaitable[Any]) -> Any:
        """The result of a coroutine of the ledger's."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(DEADLINE_S)

    def trial(self) -> LedgerTrial:
        """A new one."""
        return self.wait(self.ledger.open(f"trial-{next(self._numbers)}"))

    def records(self, trial: LedgerTrial) -> list[Any]:
        """What receivers have appended to it."""
        records = self.wait(trial.peek())
        return [record["body"] for record in records if record["kind"] == "witness"]

    def host(
        self, receiver: str, trial: LedgerTrial, *, witness: Path | None = None, **options: Any
    ) -> ReceiverHost:
        """A receiver over the trial, not started yet."""
        return ReceiverHost(
            receiver,
            witness=witness or self.ledger.witness_socket,
            token=trial.witness,
            log=self.folder(f"receiver-{next(self._numbers)}") / "err",
            adopt=self._folder.adopt,
            **options,
        )

    def folder(self, name: str) -> Path:
        """A new folder that goes with the run."""
        return self._folder.sub(name)

    def close(self) -> None:
        """End the ledger and the thread."""
        self.wait(self.ledger.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@contextmanager
def bench() -> Iterator[Bench]:
    """One that is ended, with all it started."""
    with run_folder() as folder:
        made = Bench(folder)
        try:
            yield made
        finally:
            made.close()
