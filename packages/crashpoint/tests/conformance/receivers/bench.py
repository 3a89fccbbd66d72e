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
from crashpoint.receivers.dialect import Dialect
from crashpoint.receivers.host import ReceiverHost
from crashpoint.receivers.person import ScriptedPerson

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
        self._idle: dict[tuple[Any, ...], list[ReceiverHost]] = {}
        self._borrowed: dict[ReceiverHost, tuple[Any, ...]] = {}
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

    def borrow(
        self, receiver: str, trial: LedgerTrial, dialect: Dialect, person: ScriptedPerson
    ) -> tuple[ReceiverHost, Path]:
        """A running receiver that begins with the trial, and the file with its time.

        One that another test gave back is used again: starting takes longer than most tests.
        """
        kind = receiver, dialect, person
        if self._idle.get(kind):
            host = self._idle[kind].pop()
            host.begin(trial.witness)
        else:
            clock_file = self.folder(f"clock-{trial.name}") / "now"
            clock_file.write_text("0")
            host = self.host(
                receiver,
                trial,
                dialect=dialect,
                person=person,
                clock_file=clock_file,
                socket=clock_file.with_name("s"),
            )
            host.clock_file = clock_file
            host.start()
        self._borrowed[host] = kind
        return host, host.clock_file

    def give_back(self, host: ReceiverHost) -> None:
        """Done with it; it need not be running any more."""
        host.heal()
        self._idle.setdefault(self._borrowed.pop(host), []).append(host)

    def folder(self, name: str) -> Path:
        """A new folder that goes with the run."""
        return self._folder.sub(name)

    def close(self) -> None:
        """End the receivers, the ledger and the thread."""
        for host in itertools.chain(self._borrowed, *self._idle.values()):
            host.stop()
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
