"""One matrix run: servers and zygotes up, every trial run and sealed, everything down again."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, TextIO

from crashpoint.harness.context import context, subject_context
from crashpoint.harness.partial import Partial
from crashpoint.harness.progress import Progress
from crashpoint.harness.summary import expectation, reference_fault, summarise
from crashpoint.ledger.control import Ledger, LedgerTrial
from crashpoint.model import Barrier, FaultKind, predict, predictions_digest
from crashpoint.pipeline.contract import Adapter, Row
from crashpoint.pipeline.crash import ProcessCrasher
from crashpoint.pipeline.evidence import close_document
from crashpoint.pipeline.trial import Sealed, Stage, TrialPlan, run_trial
from crashpoint.procs.run_folder import RunFolder
from crashpoint.procs.zygote import Zygote
from crashpoint.sources.barrier import PointSocket

__all__ = ["FORMAT", "Interrupted", "MatrixSpec", "run_matrix"]

FORMAT: Final = "crashpoint.matrix/1"
CONTROL_K: Final = 5
"""Trials of a control that was not asked for."""


class Interrupted(Exception):
    """The run was asked to stop; `document` holds what was sealed before."""

    def __init__(self, document: dict[str, Any]) -> None:
        super().__init__()
        self.document = document


@dataclass(frozen=True)
class MatrixSpec:
    """What to run. `rows` pairs each row with its adapter; `k` trials per cell."""

    name: str
    rows: Sequence[tuple[Adapter, Row]]
    barriers: Sequence[Barrier]
    fault: FaultKind
    k: int
    jobs: int
    limit_s: float
    """Longest a single process may take, seconds."""
    void_max: float
    """Largest share of VOID trials with which a cell still agrees."""
    cold: int
    """Trials per cell whose recovery starts a fresh interpreter."""
    command: str
    replaces: str | None = None
    """Receipt of the evidence file that this run will replace."""

    def adapters(self) -> Mapping[str, Adapter]:
        """The engines of the run, by name."""
        return {adapter.name: adapter for adapter, _ in self.rows}


@dataclass
class _Work:
    spec: MatrixSpec
    stages: Mapping[str, Stage]
    progress: Progress
    partial: Partial
    references: dict[str, dict[str, Any]]
    control_trials: list[dict[str, Any]]
    trials: list[dict[str, Any]]


async def run_matrix(
    spec: MatrixSpec, folder: RunFolder, progress: Progress, sink: TextIO, stop: asyncio.Event
) -> dict[str, Any]:
    """Run everything and return the closed document.

    Each sealed trial is also written to `sink` as a line at once. Raises Interrupted when `stop` is
    set before the end, LedgerFault when the ledger dies, ZygoteFault when an engine cannot start.
    """
    head = {"format": FORMAT, "kind": "matrix", "name": spec.name, **context()}
    async with _stages(spec, folder) as (ledger, stages, subjects):
        work = _Work(spec, stages, progress, Partial(sink), {}, [], [])
        head |= _described(spec, subjects)
        work.partial.add({**head, "run_key": ledger.run_key.hex()})
        progress.begin(
            rows=head["rows"],
            barriers=head["barriers"],
            k=spec.k,
            fault=spec.fault.value,
        )
        running = asyncio.create_task(_everything(work))
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
            complete = running.done()
            if not complete:
                running.cancel()
            await asyncio.gather(running, return_exceptions=not complete)
        finally:
            stopping.cancel()
            progress.end()
        body = head | {
            "complete": complete,
            "references": sorted(work.references.values(), key=itemgetter("trial")),
            "control_trials": sorted(work.control_trials, key=itemgetter("trial")),
            "trials": sorted(work.trials, key=_order(head)),
        }
        body["summary"] = summarise(body)
        document = await close_document(body, ledger)
    if not complete:
        raise Interrupted(document)
    return document


def _described(spec: MatrixSpec, subjects: Mapping[str, Any]) -> dict[str, Any]:
    declared = {row.name: row.declaration for _, row in spec.rows}
    controls = {name: _control_row(adapter) for name, adapter in spec.adapters().items()}
    return {
        "command": spec.command,
        "replaces": spec.replaces,
        "fault": spec.fault.value,
        "k": spec.k,
        "cold": spec.cold,
        "jobs": spec.jobs,
        "limit_s": spec.limit_s,
        "void_max": spec.void_max,
        "barriers": [barrier.value for barrier in spec.barriers],
        "rows": [
            {
                "name": row.name,
                "engine": adapter.name,
                "declaration": row.declaration.words(),
                "predicted": {
                    b.value: predict(row.declaration, b, spec.fault).value for b in Barrier
                },
            }
            for adapter, row in spec.rows
        ],
        "predictions": predictions_digest(declared, spec.fault),
        "engines": {
            name: {
                "effects": list(adapter.effects),
                "waits_s": dict(adapter.waits_s),
                "control": {
                    "name": controls[name].name,
                    "declaration": controls[name].declaration.words(),
                },
                "subject": subjects[name],
            }
            for name, adapter in spec.adapters().items()
        },
    }


@asynccontextmanager
async def _stages(
    spec: MatrixSpec, folder: RunFolder
) -> AsyncIterator[tuple[Ledger, dict[str, Stage], dict[str, Any]]]:
    async with AsyncExitStack() as stack:
        sockets = folder.sub("sockets")
        ledger = await Ledger.start(folder.sub("ledger"), sockets, adopt=folder.adopt)
        stack.push_async_callback(ledger.close)
        points = await stack.enter_async_context(PointSocket(sockets / "points.sock"))
        trials = folder.sub("trials")
        stages, subjects = {}, {}
        for name, adapter in spec.adapters().items():
            endpoints = await stack.enter_async_context(adapter.servers(folder.sub(f"at-{name}")))
            start = _zygote_starter(adapter, folder, name)
            warm = await start(cold=False)
            stack.push_async_callback(warm.close)
            subjects[name] = subject_context(warm.facts)
            stages[name] = Stage(
                adapter,
                endpoints,
                ledger,
                ProcessCrasher(warm, partial(start, cold=True)),
                _source_of(points),
                _maker(trials),
                _forgetter(points),
                spec.limit_s,
            )
        yield ledger, stages, subjects


def _zygote_starter(
    adapter: Adapter, folder: RunFolder, name: str
) -> Callable[..., Awaitable[Zygote]]:
    environment = adapter.environment()

    async def start(*, cold: bool) -> Zygote:
        return await Zygote.start(
            python=environment.python,
            preload=() if cold else environment.preload,
            distributions=() if cold else environment.distributions,
            errors=folder.path / f"zygote-{name}.err",
            adopt=folder.adopt,
            path=environment.path,
        )

    return start


def _source_of(points: PointSocket) -> Any:
    barriers = [barrier.value for barrier in Barrier]
    return lambda trial: points.source(trial.token, barriers)


def _maker(trials: Path) -> Callable[[str], Path]:
    def make(name: str) -> Path:
        folder = trials / name
        folder.mkdir()
        return folder

    return make


def _forgetter(points: PointSocket) -> Callable[[LedgerTrial, Path], None]:
    def forget(trial: LedgerTrial, folder: Path) -> None:
        points.forget(trial.token)
        shutil.rmtree(folder, ignore_errors=True)

    return forget


async def _everything(work: _Work) -> None:
    spec = work.spec
    await _all(work, _reference_plans(work), spec.jobs)
    for reference in work.references.values():
        problem = reference_fault(reference)
        if problem is not None:
            work.progress.note(f"{reference['row']}: {problem}; its trials are not run")
    await _all(work, _control_plans(work), spec.jobs)
    await _all(work, _trial_plans(work), spec.jobs)


async def _all(
    work: _Work, plans: Iterable[tuple[str, str, TrialPlan, list[dict[str, Any]] | None]], jobs: int
) -> None:
    """Run the plans, `jobs` at a time, in order of their start."""
    waiting = iter(plans)

    async def take() -> None:
        task = asyncio.current_task()
        assert task is not None
        for engine, barrier, plan, into in waiting:
            if task.cancelling():  # and what it was in went wrong at that moment, and said that
                raise asyncio.CancelledError
            sealed = await run_trial(plan, work.stages[engine])
            record = _record(sealed, barrier)
            kind = "reference" if into is None else "trial"
            work.partial.add({"kind": kind, **record})
            if into is None:
                work.references[plan.row.name] = record
                continue
            into.append(record)
            if into is work.trials:
                outcome = sealed.verdict.effects
                predicted = predict(plan.row.declaration, Barrier(barrier), work.spec.fault)
                work.progress.trial(
                    plan.row.name, barrier, outcome, agrees=outcome in (predicted, "VOID")
                )

    async with asyncio.TaskGroup() as group:
        for _ in range(jobs):
            group.create_task(take())


def _record(sealed: Sealed, barrier: str) -> dict[str, Any]:
    return {
        "trial": sealed.plan.name,
        "row": sealed.plan.row.name,
        "barrier": barrier,
        "verdict": sealed.verdict.as_json(),
        "seen": sealed.seen.as_json(),
        "head": sealed.head,
        "count": sealed.count,
        "records": list(sealed.records),
    }


Planned = tuple[str, str, TrialPlan, list[dict[str, Any]] | None]


def _reference_plans(work: _Work) -> Iterable[Planned]:
    seen = set()
    for adapter, row in (*work.spec.rows, *_missing_controls(work.spec)):
        if row.name not in seen:
            seen.add(row.name)
            want = expectation(
                effects=adapter.effects,
                declaration=row.declaration,
                fault=None,
                barrier=None,
                reference=None,
            )
            yield adapter.name, "none", TrialPlan(f"{row.name}.reference", row, want), None


def _control_plans(work: _Work) -> Iterable[Planned]:
    for adapter, row in _missing_controls(work.spec):
        for n in range(min(work.spec.k, CONTROL_K)):
            name = f"{row.name}.control.{n:04}"
            plan = _plan(work, adapter, row, Barrier.B1, name, cold=False)
            if plan is not None:
                yield adapter.name, Barrier.B1.value, plan, work.control_trials


def _trial_plans(work: _Work) -> Iterable[Planned]:
    spec = work.spec
    for n in range(spec.k):
        for adapter, row in spec.rows:
            for barrier in spec.barriers:
                name = f"{row.name}.{barrier.value}.{n:04}"
                plan = _plan(work, adapter, row, barrier, name, cold=n < spec.cold)
                if plan is not None:
                    yield adapter.name, barrier.value, plan, work.trials


def _plan(
    work: _Work, adapter: Adapter, row: Row, barrier: Barrier, name: str, *, cold: bool
) -> TrialPlan | None:
    reference = work.references[row.name]
    if reference_fault(reference) is not None:
        return None
    want = expectation(
        effects=adapter.effects,
        declaration=row.declaration,
        fault=work.spec.fault,
        barrier=barrier.value,
        reference=reference,
    )
    return TrialPlan(name, row, want, cold)


def _missing_controls(spec: MatrixSpec) -> Iterable[tuple[Adapter, Row]]:
    """Controls that the asked-for cells do not contain."""
    asked = {row.name for _, row in spec.rows} if Barrier.B1 in spec.barriers else set()
    for adapter in spec.adapters().values():
        if adapter.control not in asked:
            yield adapter, _control_row(adapter)


def _control_row(adapter: Adapter) -> Row:
    return next(row for row in adapter.rows() if row.name == adapter.control)


def _order(head: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], Any]:
    rows = [row["name"] for row in head["rows"]]
    return lambda trial: (rows.index(trial["row"]), trial["barrier"], trial["trial"])
