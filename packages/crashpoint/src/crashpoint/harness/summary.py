"""From a run's trials to its cells, controls and exit code. Pure: verified by running it again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from crashpoint.canonical import digest
from crashpoint.harness.stats import percentiles, wilson
from crashpoint.model import (
    Barrier,
    Declaration,
    Determinism,
    Durability,
    EffectMode,
    FaultKind,
    Outcome,
    PersistOrder,
    Takeover,
    at_fault,
    predict,
)
from crashpoint.pipeline.judge import Expectation

__all__ = [
    "EXIT_AGREE",
    "EXIT_DISAGREE",
    "EXIT_UNCERTIFIED",
    "EXIT_USAGE",
    "declaration_of",
    "expectation",
    "reference_fault",
    "summarise",
]

EXIT_AGREE, EXIT_DISAGREE, EXIT_USAGE, EXIT_UNCERTIFIED = 0, 1, 2, 3

Trials = Sequence[Mapping[str, Any]]


def declaration_of(words: Mapping[str, str]) -> Declaration:
    """A declaration from its printed words; raises ValueError or KeyError for others."""
    return Declaration(
        durability=Durability(words["durability"]),
        persist_order=PersistOrder(words["persist_order"]),
        effect_mode=EffectMode(words["effect_mode"]),
        determinism=Determinism(words["determinism"]),
        takeover=Takeover(words.get("takeover", Takeover.WHILE_ALIVE)),
    )


def expectation(
    *,
    effects: Sequence[str],
    declaration: Declaration,
    fault: FaultKind | None,
    barrier: str | None,
    reference: Mapping[str, Any] | None,
) -> Expectation:
    """What a trial of a row is judged against; `reference` is its uncrashed run, if any."""
    result = None
    if reference is not None and "final" in reference["seen"]:
        result = digest(reference["seen"]["final"]["result"])
    if fault is None or barrier is None:
        return Expectation(effects, None, result=result)
    place = at_fault(declaration, Barrier(barrier))
    return Expectation(effects, fault, barrier, place, result)


def reference_fault(reference: Mapping[str, Any]) -> str | None:
    """Why an uncrashed run is no reference, or None: it ends well and passes each barrier once."""
    verdict, passed = reference["verdict"], list(reference["seen"].get("passed", ()))
    if verdict["effects"] != Outcome.EXACTLY_ONCE:
        return (
            f"an uncrashed run is {verdict['effects']} ({verdict.get('void', 'no crash at all')})"
        )
    if passed != [barrier.value for barrier in Barrier]:
        return f"an uncrashed run passes {', '.join(passed) or 'no barrier'}"
    return None


def summarise(run: Mapping[str, Any]) -> dict[str, Any]:
    """Cells, controls, findings and the exit code of a run.

    Reads `fault, k, void_max, barriers, rows, engines, references, control_trials, trials`. Rates
    are [hits, k], intervals fractions, times microseconds.
    """
    dead = {r["row"]: fault for r in run["references"] if (fault := reference_fault(r))}
    cells = [_cell(run, row, barrier) for row in run["rows"] for barrier in run["barriers"]]
    controls = [_control(run, name, engine) for name, engine in run["engines"].items()]
    findings = [f"{row}: {fault}" for row, fault in dead.items()]
    findings += [
        f"control {c['row']} at b1 is not red: {_counted(c['counts'])}; nothing is certified"
        for c in controls
        if not c["alive"]
    ]
    for cell in cells:
        findings += _cell_findings(cell, run)
    return {
        "cells": cells,
        "controls": controls,
        "findings": findings,
        "exit": _exit(run, cells, controls, dead),
    }


def _cell(run: Mapping[str, Any], row: Mapping[str, Any], barrier: str) -> dict[str, Any]:
    trials = [t for t in run["trials"] if t["row"] == row["name"] and t["barrier"] == barrier]
    k, predicted = run["k"], row["predicted"][barrier]
    counts = Counter(t["verdict"]["effects"] for t in trials)
    void = counts[Outcome.VOID] + (k - len(trials))
    hits = counts[predicted]
    results = Counter(t["verdict"]["result"] for t in trials)
    cell = {
        "row": row["name"],
        "barrier": barrier,
        "predicted": predicted,
        "counts": {outcome.value: counts[outcome] for outcome in Outcome if counts[outcome]},
        "run": len(trials),
        "void": void,
        "rate": [hits, k],
        "interval": list(wilson(hits, k)),
        "differing": len(trials) - counts[Outcome.VOID] - hits,
        "agrees": len(trials) - counts[Outcome.VOID] == hits and void <= run["void_max"] * k,
        "wrong_results": results["WRONG"],
        "reasons": dict(
            sorted(Counter(t["verdict"]["void"] for t in trials if "void" in t["verdict"]).items())
        ),
    }
    for mode in ("hot", "cold"):
        times = [
            t["seen"]["recover_us"]
            for t in trials
            if t["seen"]["mode"] == mode
            and "recover_us" in t["seen"]
            and "void" not in t["verdict"]
        ]
        cell[f"recover_{mode}_us"] = percentiles(times)
    return cell


def _control(run: Mapping[str, Any], engine: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Alive: its red prediction was seen, and never the green one."""
    row = facts["control"]
    trials = [
        t
        for t in (*run["trials"], *run["control_trials"])
        if t["row"] == row["name"] and t["barrier"] == Barrier.B1
    ]
    counts = Counter(t["verdict"]["effects"] for t in trials)
    predicted = predict(declaration_of(row["declaration"]), Barrier.B1, FaultKind(run["fault"]))
    return {
        "engine": engine,
        "row": row["name"],
        "predicted": predicted.value,
        "counts": dict(sorted(counts.items())),
        "alive": counts[predicted] > 0 and counts[Outcome.EXACTLY_ONCE] == 0,
    }


def _cell_findings(cell: Mapping[str, Any], run: Mapping[str, Any]) -> Iterable[str]:
    where = f"{cell['row']} at {cell['barrier']}"
    if cell["differing"]:
        yield f"{where}: predicted {cell['predicted']}, observed {_counted(cell['counts'])}"
    if cell["void"] > run["void_max"] * run["k"]:
        reasons = "; ".join(f"{n} x {reason}" for reason, n in cell["reasons"].items())
        missing = run["k"] - cell["run"]
        if missing:
            reasons = "; ".join(filter(None, (reasons, f"{missing} not run")))
        yield f"{where}: {cell['void']} of {run['k']} VOID: {reasons}"
    if cell["wrong_results"]:
        yield f"{where}: {cell['wrong_results']} recovered runs report another result (WRONG)"


def _exit(
    run: Mapping[str, Any],
    cells: Sequence[Mapping[str, Any]],
    controls: Sequence[Mapping[str, Any]],
    dead: Mapping[str, str],
) -> int:
    if dead or not all(control["alive"] for control in controls):
        return EXIT_UNCERTIFIED
    if any(cell["differing"] for cell in cells):
        return EXIT_DISAGREE
    if any(cell["void"] > run["void_max"] * run["k"] for cell in cells):
        return EXIT_UNCERTIFIED
    return EXIT_AGREE


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{outcome} {n}" for outcome, n in counts.items()) or "nothing"
