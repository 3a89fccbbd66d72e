"""One trial: a fold over worlds. Start, fault, look, recover, thaw, look again, seal, judge."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from crashpoint.canonical import NotCanonical, canonical
from crashpoint.ledger.chain import Record
from crashpoint.ledger.control import Ledger, LedgerFault, LedgerTrial
from crashpoint.pipeline.contract import Adapter, Endpoints, Launch, Row, Trial
from crashpoint.pipeline.crash import (
    Crashed,
    Crasher,
    Ended,
    Hung,
    NotReached,
    Outcomes,
    UnusableResult,
    World,
)
from crashpoint.pipeline.judge import Expectation, Observed, Verdict, how_it_ended, judge
from crashpoint.pipeline.points import Injection, Point, PointSource
from crashpoint.procs.zygote import ZygoteFault

__all__ = ["ProbeFailed", "Sealed", "Stage", "TrialPlan", "run_trial"]


class ProbeFailed(RuntimeError):
    """An entry that only reads did not end well."""


@dataclass(frozen=True)
class TrialPlan:
    """What one trial is to do. `name` is used once per run."""

    name: str
    row: Row
    want: Expectation
    cold: bool = False
    """Recover with a fresh interpreter."""


@dataclass(frozen=True)
class Stage:
    """Everything trials of one engine share."""

    adapter: Adapter
    endpoints: Endpoints
    ledger: Ledger
    crasher: Crasher
    source: Callable[[LedgerTrial], PointSource]
    folder: Callable[[str], Path]
    """Makes a new folder for a trial."""
    forget: Callable[[LedgerTrial, Path], None]
    """Called when the trial is over: drop its token and folder."""
    limit_s: float


@dataclass(frozen=True)
class Sealed:
    """A finished trial: what was seen, the sealed records, the verdict."""

    plan: TrialPlan
    seen: Observed
    head: str
    count: int
    records: Sequence[Record]
    verdict: Verdict


async def run_trial(plan: TrialPlan, stage: Stage) -> Sealed:
    """Run, seal and judge one trial. Raises LedgerFault when the ledger is gone."""
    ledger_trial = await stage.ledger.open(plan.name)
    folder = stage.folder(plan.name)
    state, scratch = folder / "state", folder / "scratch"
    state.mkdir()
    scratch.mkdir()
    source = stage.source(ledger_trial)
    world = World(state, scratch, stage.ledger.invoke_socket, source)
    trial = Trial(plan.name, state, stage.endpoints, _prober(world, stage))
    try:
        seen = await _observe(_Running(plan, stage, world, trial, ledger_trial))
        chain = await ledger_trial.seal(seen.note())
    finally:
        await stage.crasher.dispose(world)
        stage.forget(ledger_trial, folder)
    verdict = judge(chain, plan.want, seen, basis=stage.crasher.basis)
    return Sealed(plan, seen, chain.head, chain.count, chain.records, verdict)


@dataclass(frozen=True)
class _Running:
    plan: TrialPlan
    stage: Stage
    world: World
    trial: Trial
    ledger_trial: LedgerTrial


async def _observe(running: _Running) -> Observed:
    """Go through the trial's steps; whatever stops it, what was seen before is kept."""
    seen: dict[str, Any] = {"mode": "cold" if running.plan.cold else "hot"}
    try:
        await _steps(running, seen)
    except LedgerFault:
        raise
    except (ZygoteFault, ProbeFailed, UnusableResult) as fault:
        seen["error"] = str(fault)
    except Exception as error:  # noqa: BLE001  an adapter's own: VOID, and the matrix goes on
        seen["error"] = f"{type(error).__name__}: {error}".encode(errors="replace").decode()
    try:
        canonical(seen)
    except NotCanonical as error:
        return Observed(seen["mode"], error=f"what was seen cannot be kept: {error}")
    return Observed(**seen)


async def _steps(running: _Running, seen: dict[str, Any]) -> None:
    plan, stage, world, trial = running.plan, running.stage, running.world, running.trial
    adapter, row, want = stage.adapter, plan.row, plan.want
    at = None
    if want.fault is not None and want.barrier is not None:
        at = Injection(Point("barrier", want.barrier), want.fault)
    first = await stage.crasher.run(world, adapter.start(row, trial), at, limit_s=stage.limit_s)
    seen |= _first(first)
    if isinstance(first, NotReached | Hung):
        return
    last: Outcomes = first
    if isinstance(first, Crashed):
        seen["records_at_fault"] = len(await running.ledger_trial.peek())
        seen["store"] = asdict(await adapter.durable(row, trial))
        launch = replace(adapter.recover(row, trial), cold=plan.cold)
        last = await stage.crasher.run(world, launch, None, limit_s=stage.limit_s)
        seen["recovery"] = _process(last)
        if not isinstance(last, Ended):
            return
        seen["recover_us"] = (last.at_ns - first.at_ns) // 1000
    while world.frozen:
        seen["thawed"] = _process(await stage.crasher.thaw(world.frozen.pop(0)))
    assert isinstance(last, Ended)
    seen["final"] = asdict(await adapter.final(row, trial, last.result))


def _first(outcome: Ended | Crashed | NotReached | Hung) -> dict[str, Any]:
    if isinstance(outcome, Crashed):
        how = "crashed" if outcome.code is not None else "frozen"
        process = {"how": how, "code": outcome.code}
        return {"first": process, "fired": asdict(outcome.fired), "passed": outcome.passed}
    ended = outcome.ended if isinstance(outcome, NotReached) else outcome
    return {"first": _process(ended), "passed": ended.passed}


def _process(outcome: Any) -> Mapping[str, Any]:
    if isinstance(outcome, Hung):
        return {"how": "hung", "code": None, "said": outcome.said}
    if not isinstance(outcome, Ended):
        raise TypeError(f"a recovery cannot end as {type(outcome).__name__}")
    process = {"how": "ended", "code": outcome.code}
    if outcome.code != 0:
        process["said"] = outcome.said
    if outcome.leftovers:
        process["leftovers"] = outcome.leftovers
    return process


def _prober(world: World, stage: Stage) -> Callable[[Launch], Awaitable[Any]]:
    async def probe(launch: Launch) -> Any:
        outcome = await stage.crasher.run(world, launch, None, limit_s=stage.limit_s)
        if not isinstance(outcome, Ended) or outcome.code != 0:
            raise ProbeFailed(f"{launch.entry} did not answer: {how_it_ended(_process(outcome))}")
        return outcome.result

    return probe
