"""From a sealed chain and what the controller saw to a verdict. Pure: verified by repeating it.

A trial counts only when the fault is known to have landed where the barrier lies: the ledger and
the engine's own store, read between fault and recovery, must both say so. Everything else is VOID.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final

from crashpoint.canonical import digest
from crashpoint.ledger import oracle
from crashpoint.ledger.chain import SealedChain
from crashpoint.model import AtFault, FaultKind, Outcome

__all__ = ["Ending", "Expectation", "Observed", "Result", "Verdict", "how_it_ended", "judge"]

KILLED_CODE: Final = -9


class Ending(StrEnum):
    """How the run stood after its last recovery."""

    ENDED = "ENDED"
    STUCK = "STUCK"
    """A process hung, or the engine does not call the run finished."""
    CRASHLOOP = "CRASHLOOP"
    NO_START = "NO_START"
    """The recovering process failed."""


class Result(StrEnum):
    """The recovered run's result beside an uncrashed run's."""

    SAME = "SAME"
    WRONG = "WRONG"
    NOT_CHECKED = "NOT_CHECKED"


@dataclass(frozen=True)
class Observed:
    """What the controller saw in one trial, as JSON values; the ledger's seal has its digest."""

    mode: str
    """"hot" or "cold": how the recovering process was started."""
    passed: Sequence[str] = ()
    """Points the first process passed before the fault or its end."""
    first: Mapping[str, Any] | None = None
    """How the first process ended: {how, code, said}; `how` is crashed, frozen, ended or hung."""
    fired: Mapping[str, Any] | None = None
    records_at_fault: int | None = None
    store: Mapping[str, Any] | None = None
    """{recorded, facts} between fault and recovery."""
    recovery: Mapping[str, Any] | None = None
    thawed: Mapping[str, Any] | None = None
    final: Mapping[str, Any] | None = None
    """{finished, result, facts}."""
    recover_us: int | None = None
    """From the fault to the end of the recovery."""
    error: str | None = None
    """What kept the bench itself from finishing the trial."""

    def as_json(self) -> dict[str, Any]:
        """The form in evidence."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def note(self) -> str:
        """Digest that the ledger's seal carries."""
        return digest(self.as_json())


@dataclass(frozen=True)
class Expectation:
    """What a trial is judged against."""

    effects: Sequence[str]
    fault: FaultKind | None
    """None: an uncrashed reference run."""
    barrier: str | None = None
    place: AtFault | None = None
    result: str | None = None
    """Digest of an uncrashed run's result; None: not compared."""


@dataclass(frozen=True)
class Verdict:
    """The judgement of one trial. `void` says why when `effects` is VOID."""

    effects: Outcome
    ending: Ending
    result: Result
    basis: str
    void: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The form in evidence."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def judge(chain: SealedChain, want: Expectation, seen: Observed, *, basis: str) -> Verdict:
    """Judge a trial; never raises for anything a chain or an observation can hold."""
    ending = _ending(seen)
    counted = oracle.count(chain, want.effects)
    void = (
        counted.void
        or _unsealed(chain, seen)
        or (seen.error and f"the bench: {seen.error}")
        or _misplaced(chain, want, seen)
        or _unfinished(seen, ending)
        or _skipped(want, seen)
    )
    if void:
        return Verdict(Outcome.VOID, ending, Result.NOT_CHECKED, basis, void)
    return Verdict(counted.outcome, ending, _result(want, seen), basis)


def _ending(seen: Observed) -> Ending:
    for process in (seen.first, seen.recovery, seen.thawed):
        if process is not None and process["how"] == "hung":
            return Ending.STUCK
    if seen.recovery is not None and seen.recovery["code"] != 0:
        return Ending.NO_START
    if seen.final is None or not seen.final["finished"]:
        return Ending.STUCK
    return Ending.ENDED


def _unsealed(chain: SealedChain, seen: Observed) -> str | None:
    if chain.records[-1].get("note") != seen.note():
        return "the observations are not the ones that were sealed"
    return None


def _misplaced(chain: SealedChain, want: Expectation, seen: Observed) -> str | None:
    """Why the fault cannot be said to have landed at the barrier, or None."""
    if want.fault is None:
        return None
    if seen.fired is None or seen.first is None:
        return f"{want.barrier} was never reached: {how_it_ended(seen.first)}"
    if seen.fired["point"] != want.barrier:
        return f"the fault landed at {seen.fired['point']}, not at {want.barrier}"
    if not seen.fired["announced_within"]:
        return "the barrier was announced by a process outside the subject's tree"
    if want.fault == FaultKind.KILL and seen.first["code"] != KILLED_CODE:
        return f"the first process did not die of the kill: {how_it_ended(seen.first)}"
    if seen.records_at_fault is None or seen.store is None or want.place is None:
        return "nothing was read between the fault and the recovery"
    crossed = oracle.crossings(chain.records[: seen.records_at_fault])
    if crossed != want.place.effect_done:
        return (
            f"at {want.barrier} the effect should have crossed "
            f"{int(want.place.effect_done)} times, the ledger held {crossed}"
        )
    if seen.store["recorded"] != want.place.recorded:
        says = {True: "recorded", False: "not recorded"}
        return (
            f"at {want.barrier} the completion should be {says[want.place.recorded]}, "
            f"the engine's store had it {says[seen.store['recorded']]}"
        )
    return None


def _unfinished(seen: Observed, ending: Ending) -> str | None:
    """Why the run cannot be said to have ended, or None."""
    if ending is Ending.ENDED:
        return None
    for name, process in (
        ("the first process", seen.first),
        ("the recovery", seen.recovery),
        ("the thawed process", seen.thawed),
    ):
        if process is not None and process["how"] == "hung":
            return f"{name} hung: no end within the time limit{_said(process)}"
    if ending is Ending.NO_START:
        return f"the recovery failed: {how_it_ended(seen.recovery)}"
    if seen.first is not None and seen.first["how"] == "ended" and seen.first["code"] != 0:
        return f"the run failed: {how_it_ended(seen.first)}"
    return "the engine does not call the run finished"


def _skipped(want: Expectation, seen: Observed) -> str | None:
    """Which step of the trial nobody saw, or None."""
    if want.fault is not None and seen.recovery is None:
        return "no process recovered"
    if want.fault == FaultKind.FREEZE and seen.thawed is None:
        return "the frozen process was never thawed"
    return None


def _result(want: Expectation, seen: Observed) -> Result:
    if want.result is None or seen.final is None:
        return Result.NOT_CHECKED
    return Result.SAME if digest(seen.final["result"]) == want.result else Result.WRONG


def how_it_ended(process: Mapping[str, Any] | None) -> str:
    """A sentence about a process as `Observed` has it."""
    if process is None:
        return "no process ran"
    if process["how"] == "hung":
        return f"it hung{_said(process)}"
    code = process["code"]
    ended = f"signal {-code}" if code is not None and code < 0 else f"exit status {code}"
    return f"it ended with {ended}{_said(process)}"


def _said(process: Mapping[str, Any]) -> str:
    return f" ({process['said']})" if process.get("said") else ""
