"""Worlds of real processes: a folder, receivers that are processes, a ledger they cannot rewrite.

What the `fork` and `spawn` crashers work in. A world cannot be copied here: to have it again, the
crashes that led to it are made again.
"""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from crashpoint.ledger.chain import Kind
from crashpoint.ledger.control import Ledger, LedgerTrial
from crashpoint.pipeline.crash import Basis
from crashpoint.procs.run_folder import run_folder
from crashpoint.receivers.dialect import Dialect
from crashpoint.receivers.host import ReceiverHost
from crashpoint.receivers.person import TRUTHFUL, ScriptedPerson
from crashpoint.receivers.receiver import ReceiverFault
from crashpoint.sweep.folder import Name, files_below, name_by_content, seen_in
from crashpoint.sweep.runner import Executor, Order, Runner
from crashpoint.sweep.scratch import memory_folder
from crashpoint.sweep.words import Process, Seen, SweepFault, When, kind_of

__all__ = ["RealCrasher", "RealWorld", "real_crasher"]

T = TypeVar("T")


@dataclass(frozen=True)
class _Run:
    """A process that has run, and how it ended."""

    resume: bool
    at: int
    fail: bool
    when: When


@dataclass(frozen=True)
class _Armed:
    """A fault that was prepared at a receiver."""

    receiver: str
    fault: ReceiverFault
    nth: int


@dataclass(frozen=True)
class _Healed:
    """Receivers that died were brought up again."""


Step = _Run | _Armed | _Healed


@dataclass
class RealWorld:
    """One world: its state folder, its ledger trials, and the steps that made it what it is."""

    state: Path
    trials: Mapping[str, LedgerTrial]
    steps: list[Step] = field(default_factory=list)
    model_calls: int = 0


class RealCrasher:
    """Runs processes in real worlds; one world at a time is the receivers'."""

    basis = Basis.KILLED

    def __init__(
        self,
        *,
        runner: Runner,
        folder: Path,
        ledger: Ledger,
        hosts: Mapping[str, ReceiverHost],
        loop: asyncio.AbstractEventLoop,
        limit_s: float,
        name: Name,
    ) -> None:
        self._runner = runner
        self._folder = folder
        self._ledger = ledger
        self._hosts = hosts
        self._loop = loop
        self._limit_s = limit_s
        self._name = name
        self._made = 0
        self._spare: RealWorld | None = None
        self._dropped: list[RealWorld] = []
        self.lifetimes = 0
        """Processes run, those included that made a world again."""

    def fresh(self) -> RealWorld:
        """An empty folder, and a new ledger trial for each receiver."""
        world, self._spare = self._spare or self._made_one(), None
        for receiver, host in self._hosts.items():
            host.begin(world.trials[receiver].witness)
        return world

    def _made_one(self) -> RealWorld:
        self._made += 1
        folder = self._folder / str(self._made)
        (folder / "state").mkdir(parents=True)
        names = {receiver: f"{receiver}-{self._made}" for receiver in self._hosts}
        trials = {r: self._wait(self._ledger.open(name)) for r, name in names.items()}
        return RealWorld(folder / "state", trials)

    def _tidy(self) -> None:
        """What no process waits for, done while one runs: the next world, and old ones' ends."""
        if self._spare is None:
            self._spare = self._made_one()
        while self._dropped:
            world = self._dropped.pop()
            for trial in world.trials.values():
                self._wait(trial.seal(""))
            shutil.rmtree(world.state.parent, ignore_errors=True)

    def run(self, world: RealWorld, *, resume: bool, at: int, fail: bool = False) -> Process:
        """See `Crasher.run`."""
        env = {"CRASHPOINT_STATE": str(world.state)}
        for host in self._hosts.values():
            env |= host.environment()
        self.lifetimes += 1
        process = self._runner.run(
            Order(resume, at, str(world.state), env, self._limit_s, fail), meanwhile=self._tidy
        )
        world.model_calls += sum(kind_of(name) == "reply" for name in process.passed)
        world.steps.append(_Run(resume, at, fail, process.when))
        return process

    def snapshot(self, world: RealWorld) -> tuple[Step, ...]:
        """The steps that led here."""
        return tuple(world.steps)

    def restore(self, snapshot: tuple[Step, ...]) -> RealWorld:
        """Take them again; raises SweepFault when one does not come about a second time."""
        world = self.fresh()
        for step in snapshot:
            match step:
                case _Armed(receiver, fault, nth):
                    self.arm(world, receiver, fault, nth)
                case _Healed():
                    self.heal(world)
                case _Run(resume, at, fail, when):
                    process = self.run(world, resume=resume, at=at, fail=fail)
                    if process.when is not when:
                        raise SweepFault(
                            f"not deterministic: a process that {when} before, at point {at}, has "
                            f"{process.when} when run again ({process.said})"
                        )
        return world

    def key(self, world: RealWorld) -> Hashable:
        """Files, what each receiver recorded (without the time), counters."""
        records = [
            (receiver, *[repr({**r, "at_s": None}) for r in self._records(trial)])
            for receiver, trial in world.trials.items()
        ]
        return tuple(sorted(files_below(world.state).items())), tuple(records), world.model_calls

    def seen(self, world: RealWorld) -> Seen:
        """What crossed, from the ledger."""
        crossings: dict[str, tuple[str, ...]] = {}
        swallowed: tuple[str, ...] = ()
        asks = 0
        ops: Counter[str] = Counter()
        for trial in world.trials.values():
            records = self._records(trial)
            ops.update(record["op"] for record in records if record["did"] == "acted")
            crossed, lost = seen_in(records, self._name)
            crossings |= crossed
            swallowed += lost
            asks += sum(record["did"] == "asked" for record in records)
        return Seen(crossings, asks, world.model_calls, swallowed, ops)

    def drop(self, world: RealWorld) -> None:
        """Seal its trials and remove its files, while a later process runs or the ledger ends."""
        self._dropped.append(world)

    def requests(self, world: RealWorld) -> list[tuple[str, str]]:
        """See `FaultyCrasher`; receivers one after the other."""
        return [(r["receiver"], r["op"]) for r in self.records(world) if r["did"] == "acted"]

    def arm(self, world: RealWorld, receiver: str, fault: ReceiverFault, nth: int) -> None:
        """See `FaultyCrasher`."""
        world.steps.append(_Armed(receiver, fault, nth))
        self._hosts[receiver].inject(fault, nth)

    def heal(self, world: RealWorld) -> None:
        """See `FaultyCrasher`."""
        world.steps.append(_Healed())
        for host in self._hosts.values():
            host.heal()

    def settle(self, _world: RealWorld) -> None:
        """See `FaultyCrasher`."""
        for host in self._hosts.values():
            host.settle()

    def records(self, world: RealWorld) -> list[dict[str, Any]]:
        """Every receiver's records, for people."""
        return [r for trial in world.trials.values() for r in self._records(trial)]

    def _records(self, trial: LedgerTrial) -> list[dict[str, Any]]:
        return [r["body"] for r in self._wait(trial.peek()) if r["kind"] == Kind.WITNESS]

    def _wait(self, awaitable: Awaitable[T]) -> T:
        async def wait() -> T:
            return await awaitable

        return self._loop.run_until_complete(wait())


@contextmanager
def real_crasher(
    make_executor: Callable[[Path], Executor],
    *,
    dialects: Mapping[str, Dialect],
    person: ScriptedPerson = TRUTHFUL,
    limit_s: float = 30.0,
    name: Name = name_by_content,
) -> Iterator[RealCrasher]:
    """A crasher with its ledger, receivers and runner; all of them are gone afterwards.

    `make_executor` gets a folder for sockets. Raises SweepFault, FolderFault, LedgerFault,
    HostFault.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(run_folder(memory_folder()))
        # Forked before anything else is started, so that it shares nothing with it.
        runner = Runner(make_executor(folder.path))
        stack.callback(runner.close)
        loop = asyncio.new_event_loop()
        stack.callback(loop.close)
        sockets = folder.sub("sockets")
        ledger = loop.run_until_complete(
            Ledger.start(folder.sub("ledger"), sockets, adopt=folder.adopt)
        )
        stack.callback(lambda: loop.run_until_complete(ledger.close()))
        hosts = {}
        for receiver, dialect in dialects.items():
            trial = loop.run_until_complete(ledger.open(f"{receiver}-0"))
            host = ReceiverHost(
                receiver,
                witness=ledger.witness_socket,
                token=trial.witness,
                log=folder.path / f"{receiver}.err",
                dialect=dialect,
                adopt=folder.adopt,
                person=person,
                socket=sockets / f"{receiver}.sock",
            )
            hosts[receiver] = stack.enter_context(host)
        yield RealCrasher(
            runner=runner,
            folder=folder.sub("worlds"),
            ledger=ledger,
            hosts=hosts,
            loop=loop,
            limit_s=limit_s,
            name=name,
        )
