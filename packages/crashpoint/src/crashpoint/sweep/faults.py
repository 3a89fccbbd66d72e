"""Sweeps under other faults than a crash: a write fails, a reply is lost, a request arrives late.

Each is injected once, at every place where it can happen in a run without faults; the program deals
with it in its own way, and is restarted when it ends. From depth 2 on its restarts are crashed too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol, TypeVar

from crashpoint.model import Outcome
from crashpoint.pipeline.judge import Ending
from crashpoint.receivers.receiver import ReceiverFault
from crashpoint.sweep.engine import Crasher, Sweep, judge
from crashpoint.sweep.words import Process, Scenario, SweepFault, Verdict, When, kind_of

__all__ = ["FaultSweep", "FaultyCrasher", "SweepFaultKind"]

SAVES: Final = frozenset({"tmp", "truncated"})
"""Kinds of points at which a write can fail before it is done."""


class SweepFaultKind(StrEnum):
    """What a sweep can inject."""

    KILL = "kill"
    ERROR = "error"
    """One write fails with "no space left", or one request with a 500 and nothing done."""
    LOST_REPLY = "lost-reply"
    """The receiver acts, the caller gets no answer: also what a tool does that fails after that."""
    LATE_ACCEPT = "late-accept"
    """The caller dies waiting; the receiver acts when the run has been recovered."""
    RECEIVER_CRASH = "receiver-crash"
    """The receiver acts, keeps that, and dies before it answers; both are restarted."""
    WRONG_ANSWER = "wrong-answer"
    """A crash, and a person who errs at a declared rate."""


_AT_RECEIVER: Final = {
    SweepFaultKind.ERROR: ReceiverFault.ERROR,
    SweepFaultKind.LOST_REPLY: ReceiverFault.LOST_REPLY,
    SweepFaultKind.LATE_ACCEPT: ReceiverFault.LATE_ACCEPT,
    SweepFaultKind.RECEIVER_CRASH: ReceiverFault.RECEIVER_CRASH,
}

W = TypeVar("W")


class FaultyCrasher(Crasher[W], Protocol[W]):
    """A crasher whose world has receivers that can misbehave."""

    def requests(self, world: W) -> list[tuple[str, str]]:
        """Receiver and operation of each request that has acted, in order."""
        ...

    def arm(self, world: W, receiver: str, fault: ReceiverFault, nth: int) -> None:
        """Have the fault befall the receiver's `nth` changing request from now."""
        ...

    def heal(self, world: W) -> None:
        """Bring receivers that died up again, without the faults that are still to come."""
        ...

    def settle(self, world: W) -> None:
        """Have requests that are still on their way done."""
        ...


@dataclass(frozen=True)
class _Injection:
    """One fault at one place: the n-th point of the run, or a receiver's n-th request."""

    name: str
    n: int
    receiver: str | None = None


class FaultSweep(Sweep[W]):
    """A sweep whose first process meets a fault instead of being killed."""

    def __init__(
        self,
        crasher: FaultyCrasher[W],
        fault: SweepFaultKind,
        *,
        depth: int = 2,
        result: bool = True,
        expected: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(crasher, depth=depth, dedupe=False, result=result, expected=expected)
        self.faulty = crasher
        self._fault = fault
        self._plan = self._places()
        if not self._plan:
            raise SweepFault(f"the program does nothing that {fault} could befall")

    def scenarios(self, only: tuple[int, ...] | None = None) -> Iterator[Scenario]:
        """Every place of the fault in a run, and each crash of the restarts after it."""
        for number, injection in enumerate(self._plan, start=1):
            if only is not None and only[0] != number:
                continue
            path, names = (number,), (injection.name,)
            world, process = self._meet(injection)
            if process.when is When.ENDED:
                self.faulty.heal(world)
                self.faulty.settle(world)
                verdict = judge(self.found, process, self._crasher.seen(world))
                self._crasher.drop(world)
                yield Scenario(path, names, verdict)
            elif process.when is When.HUNG:
                self._crasher.drop(world)
                void = f"{self._fault}: the process hung: {process.said}"
                yield Scenario(path, names, Verdict(Outcome.VOID, Ending.STUCK, void=void))
            else:
                self.faulty.heal(world)
                yield from self._after(world, path, names, only)

    def _recover(self, world: W) -> tuple[Process, Verdict]:
        first, last = self._restart(world)
        self.faulty.heal(world)
        self.faulty.settle(world)
        verdict = judge(self.found, last, self._crasher.seen(world))
        self._crasher.drop(world)
        return first, verdict

    def _places(self) -> list[_Injection]:
        """Where the fault can happen, in the order of a run without faults."""
        places = []
        if self._fault is SweepFaultKind.ERROR:
            places += [
                _Injection(f"error:{name}", n)
                for n, name in enumerate(self.found.points, start=1)
                if kind_of(name) in SAVES
            ]
        counts: dict[str, int] = {}
        for receiver, op in self._clean_requests():
            counts[receiver] = counts.get(receiver, 0) + 1
            places.append(_Injection(f"{self._fault}:{op}", counts[receiver], receiver))
        return places

    def _clean_requests(self) -> list[tuple[str, str]]:
        world = self._crasher.fresh()
        self._run(world, resume=False, at=0)
        requests = self.faulty.requests(world)
        self._crasher.drop(world)
        return requests

    def meet(self, n: int) -> tuple[W, Process]:
        """A world in which the first process has met the fault at its n-th place."""
        return self._meet(self._plan[n - 1])

    def _meet(self, injection: _Injection) -> tuple[W, Process]:
        """A world in which the first process has met the fault, and how it ended."""
        world = self._crasher.fresh()
        if injection.receiver is None:
            return world, self._run(world, resume=False, at=injection.n, fail=True)
        fault = _AT_RECEIVER[self._fault]
        self.faulty.arm(world, injection.receiver, fault, injection.n)
        process = self._run(world, resume=False, at=0)
        if self._fault is not SweepFaultKind.LATE_ACCEPT:
            return world, process
        # The caller has to die while it waits: find out where that is, and crash it there.
        at = next((n for n, p in enumerate(process.passed, 1) if kind_of(p) == "timeout"), None)
        self._crasher.drop(world)
        if at is None:
            raise SweepFault("no request went unanswered: the fault was not seen to happen")
        world = self._crasher.fresh()
        self.faulty.arm(world, injection.receiver, fault, injection.n)
        return world, self._run(world, resume=False, at=at)
