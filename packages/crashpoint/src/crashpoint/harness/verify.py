"""Check an evidence file by doing everything again: chain, oracle, judgement, statistics, seals.

What cannot be checked from the file alone: that this program, and not another, wrote it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from crashpoint.harness import bench
from crashpoint.harness.partial import read_partial
from crashpoint.harness.run import FORMAT
from crashpoint.harness.summary import (
    declaration_of,
    expectation,
    reference_fault,
    summarise,
)
from crashpoint.model import Barrier, FaultKind, predict, predictions_digest
from crashpoint.pipeline.crash import Basis
from crashpoint.pipeline.evidence import EvidenceFault, chain_of, fault_in_closing, read_document
from crashpoint.pipeline.judge import Observed, judge

__all__ = ["Checked", "verify"]


@dataclass(frozen=True)
class Checked:
    """What a good file holds: `says` in one line; `warnings` are true but no fault of the file."""

    says: str
    warnings: tuple[str, ...] = ()


def verify(path: Path) -> Checked:
    """Check a file; raises EvidenceFault with the first thing that is wrong with it."""
    if path.suffix == ".jsonl":
        return _verify_cut_off(path)
    document = read_document(path)
    name = document.get("name")
    check = CHECKS.get(str(document.get("format")))
    if check is None:
        raise EvidenceFault(f"format {document.get('format')!r} is not known here")
    problem = fault_in_closing(document)
    if problem is not None:
        raise EvidenceFault(problem)
    with _malformed_is_a_fault():
        checked = check(document)
    if path.name not in {f"{name}.json", f"{name}.partial.json"}:
        renamed = f"it was written as {name}.json"
        checked = replace(checked, warnings=(*checked.warnings, renamed))
    return checked


@contextmanager
def _malformed_is_a_fault() -> Iterator[None]:
    try:
        yield
    except EvidenceFault:
        raise
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        raise EvidenceFault(f"malformed ({type(error).__name__}: {error})") from None


def _verify_matrix(document: Mapping[str, Any]) -> Checked:
    _check_predictions(document)
    trials = _check_trials(document)
    _check_names(document)
    _check_cells(document)
    summary = summarise(document)
    if summary != document["summary"]:
        wrong = next(n for n in summary if summary[n] != document["summary"].get(n))
        raise EvidenceFault(f"summary: {wrong} is not what the trials give")
    warnings = []
    if not document["complete"]:
        warnings.append("PARTIAL: the run was interrupted")
    warnings += _unclean(document)
    for engine, facts in document["engines"].items():
        for name, source in facts["subject"].get("sources", {}).items():
            if source["clean"] is not True:
                warnings.append(f"{engine} ran with uncommitted changes in {name}")
        unlocked = facts["subject"]["unlocked"]
        if unlocked:
            warnings.append(f"unlocked: {engine} ran with other versions of {', '.join(unlocked)}")
    return Checked(
        f"{trials} trials, fault {document['fault']}, exit {summary['exit']}", tuple(warnings)
    )


def _unclean(document: Mapping[str, Any]) -> list[str]:
    says = {
        True: [],
        False: ["made from a source tree with uncommitted changes"],
        None: ["whether its source tree was clean is not known: no git there"],
    }
    return says[document["source"]["clean"]]


def _check_predictions(document: Mapping[str, Any]) -> None:
    fault = FaultKind(document["fault"])
    declared = {row["name"]: declaration_of(row["declaration"]) for row in document["rows"]}
    for row in document["rows"]:
        for barrier in Barrier:
            predicted = predict(declared[row["name"]], barrier, fault)
            if row["predicted"][barrier.value] != predicted:
                raise EvidenceFault(
                    f"{row['name']} at {barrier}: the model predicts {predicted}, "
                    f"the file says {row['predicted'][barrier.value]}"
                )
    if document["predictions"] != predictions_digest(declared, fault):
        raise EvidenceFault("the digest of the predictions is not the rows'")


def _check_trials(document: Mapping[str, Any]) -> int:
    """Judge every trial again; returns how many crashed ones there are."""
    references = {reference["row"]: reference for reference in document["references"]}
    rows = _rows(document)
    for kind, trial in _every_trial(document):
        name, row = trial["trial"], rows[trial["row"]]
        is_reference = kind == "references"
        if not _is_named_for_its_place(trial, is_reference=is_reference):
            raise EvidenceFault(f"trial {name} stands at {trial['row']}, {trial['barrier']}")
        want = expectation(
            effects=document["engines"][row["engine"]]["effects"],
            declaration=declaration_of(row["declaration"]),
            fault=None if is_reference else FaultKind(document["fault"]),
            barrier=None if is_reference else trial["barrier"],
            reference=None if is_reference else references[trial["row"]],
        )
        seen = Observed(**trial["seen"])
        verdict = judge(chain_of(document, trial), want, seen, basis=Basis.KILLED)
        if verdict.as_json() != trial["verdict"]:
            raise EvidenceFault(
                f"trial {name}: judged again it is {verdict.effects}"
                f"{f' ({verdict.void})' if verdict.void else ''}, the file says otherwise"
            )
    return len(document["trials"])


def _is_named_for_its_place(trial: Mapping[str, Any], *, is_reference: bool) -> bool:
    """The name is in every sealed record; the cell for which the trial counts is not."""
    row, name = trial["row"], trial["trial"]
    if is_reference:
        return bool(name == f"{row}.reference")
    return name.rpartition(".")[0] in {f"{row}.{trial['barrier']}", f"{row}.control"}


def _rows(document: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The rows of every trial, controls that were run apart included."""
    rows = {row["name"]: row for row in document["rows"]}
    for engine, facts in document["engines"].items():
        rows.setdefault(facts["control"]["name"], {**facts["control"], "engine": engine})
    return rows


def _every_trial(document: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for kind in ("references", "control_trials", "trials"):
        for trial in document[kind]:
            yield kind, trial


def _check_names(document: Mapping[str, Any]) -> None:
    names = Counter(trial["trial"] for _, trial in _every_trial(document))
    twice = next((name for name, n in names.items() if n > 1), None)
    if twice is not None:
        raise EvidenceFault(f"trial {twice} stands in the file {names[twice]} times")


def _check_cells(document: Mapping[str, Any]) -> None:
    """Every cell has its k trials, and no trial is in another."""
    asked = {(row["name"], barrier) for row in document["rows"] for barrier in document["barriers"]}
    for trial in document["trials"]:
        if (trial["row"], trial["barrier"]) not in asked:
            raise EvidenceFault(f"trial {trial['trial']} stands in no cell that was asked for")
    dead = {r["row"] for r in document["references"] if reference_fault(r) is not None}
    for row in document["rows"]:
        for barrier in document["barriers"]:
            here = sum(
                t["row"] == row["name"] and t["barrier"] == barrier for t in document["trials"]
            )
            whole = 0 if row["name"] in dead else document["k"]
            if here != whole and (document["complete"] or here > whole):
                raise EvidenceFault(
                    f"{row['name']} at {barrier}: {here} trials, there should be {whole}"
                )


def _verify_cut_off(path: Path) -> Checked:
    """A run whose process was killed: the trials that were sealed before, a line each."""
    head, *trials = read_partial(path)
    with _malformed_is_a_fault():
        document = {**head, "references": [], "control_trials": [], "trials": []}
        for trial in trials:
            kind = "references" if trial.pop("kind") == "reference" else "trials"
            document[kind].append(trial)
        _check_predictions(document)
        _check_names(document)
        count = _check_trials(document)
    return Checked(f"{count} sealed trials of a run that was cut off", ("PARTIAL: not closed",))


def _verify_designs(document: Mapping[str, Any]) -> Checked:
    from crashpoint.sweep.published import fault_in  # the sweep stands on the harness, not under it

    problem = fault_in(document)
    if problem is not None:
        raise EvidenceFault(problem)
    modes = ", ".join(run["mode"] for run in document["runs"])
    differing = sum(len(run["differences"]) for run in document["runs"])
    says = f"five designs by {modes}, {differing} figures not as published"
    return Checked(says, tuple(_unclean(document)))


def _verify_sweep(document: Mapping[str, Any]) -> Checked:
    from crashpoint.report.sweep_text import headline
    from crashpoint.sweep.document import fault_in

    problem = fault_in(document)
    if problem is not None:
        raise EvidenceFault(problem)
    warnings = [] if document["complete"] else ["PARTIAL: not every scenario was run"]
    if document["source"]["clean"] is not True:
        warnings.append("made from a source tree with uncommitted changes")
    return Checked(headline(document), tuple(warnings))


def _verify_programs(document: Mapping[str, Any]) -> Checked:
    from crashpoint.sweep.programs import Swept, fault_in

    problem = fault_in(document)
    if problem is not None:
        raise EvidenceFault(problem)
    rows = [Swept(**row) for row in document["rows"]]
    unknown = [
        f"{r.program}, {r.mode}: {r.worst}, expected {r.expected}" for r in rows if not r.holds
    ]
    says = f"{len(rows)} sweeps of programs, {len(unknown)} not as known before"
    return Checked(says, (*unknown, *_unclean(document)))


def _verify_isolation(document: Mapping[str, Any]) -> Checked:
    from crashpoint.adversaries import isolation

    return Checked(isolation.check(document))


def _verify_bench(document: Mapping[str, Any]) -> Checked:
    problem = bench.fault_in(document)
    if problem is not None:
        raise EvidenceFault(problem)
    missed = [figure["what"] for figure in document["figures"] if figure["holds"] is False]
    warnings = tuple(f"not reached: {what}" for what in missed)
    return Checked(f"{len(document['figures'])} figures", warnings)


CHECKS: Final[Mapping[str, Callable[[Mapping[str, Any]], Checked]]] = {
    FORMAT: _verify_matrix,
    "crashpoint.designs/1": _verify_designs,
    "crashpoint.programs/1": _verify_programs,
    "crashpoint.sweep/1": _verify_sweep,
    "crashpoint.isolation/1": _verify_isolation,
    bench.FORMAT: _verify_bench,
}
