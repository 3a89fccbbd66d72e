"""Matrix documents of any shape, with real chains in their trials and the bench's own summary."""

from collections.abc import Mapping, Sequence
from typing import Any

from crashpoint.harness.summary import summarise
from crashpoint.ledger.chain import Chain, Kind
from crashpoint.model import S1_ROWS, Barrier, FaultKind, Outcome, predict

START_NS = 1_700_000_000_000_000_000
MS = 1_000_000
CHARGE = {"charge": "order-7", "cents": 1999}
OTHER = CHARGE | {"memo": "other"}
PASSED = {"b0": [], "b1": ["b0"], "b2": ["b0", "b1"]}

ACTIONS = {
    Outcome.EXACTLY_ONCE: [CHARGE],
    Outcome.DUPLICATED: [CHARGE, CHARGE],
    Outcome.DIVERGED: [CHARGE, OTHER],
    Outcome.LOST: [],
    Outcome.VOID: [CHARGE],
}
"""Outcome -> the actions of the attempts that lead to it, none with a key."""


def trial(
    row: str,
    barrier: str,
    number: int = 0,
    outcome: str = "EXACTLY_ONCE",
    *,
    void: str = "the recovery hung",
    mode: str = "hot",
    recover_us: int = 40_000,
    result: str = "SAME",
    actions: Sequence[tuple[str | None, Any]] | None = None,
    fired: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A trial with one attempt for each (key, action): the first before the fault if past b0."""
    name = f"{row}.{barrier}.{number:04}"
    if actions is None:
        actions = [(None, action) for action in ACTIONS[Outcome(outcome)]]
    before = 0 if barrier == "b0" else 1
    chain = Chain(name, b"key")
    chain.append(Kind.OPEN, START_NS)
    first: dict[str, Any] = {}
    for n, (key, action) in enumerate(actions):
        offset_ms = -2 if n < before else 25 + n
        chain.append(
            Kind.ATTEMPT,
            START_NS + offset_ms * MS,
            peer={"pid": 100 + n, "uid": 0, "gid": 0, "start": 1},
            id=f"id-{n}",
            effect="charge",
            key=key,
            action=action,
            digest="0" * 64,
            mismatch=key is not None and first.setdefault(key, action) != action,
        )
    chain.append(Kind.SEAL, START_NS + 50 * MS, note="")
    seen = {
        "mode": mode,
        "passed": PASSED[barrier],
        "first": {"how": "crashed", "code": -9},
        "fired": fired
        or {
            "point": barrier,
            "at_ns": START_NS,
            "took_us": 3000,
            "pids": 1,
            "announced_within": True,
        },
        "records_at_fault": 1 + min(before, len(actions)),
        "store": {"recorded": barrier == "b2", "facts": {"steps": [0, 1]}},
        "recovery": {"how": "ended", "code": 0},
        "recover_us": recover_us,
        "final": {"finished": True, "result": {"paid": True}, "facts": {"keys": []}},
    }
    verdict = {
        "effects": outcome,
        "ending": "STUCK" if outcome == "VOID" else "ENDED",
        "result": "NOT_CHECKED" if outcome == "VOID" else result,
        "basis": "KILLED",
    }
    if outcome == "VOID":
        verdict["void"] = void
    return {
        "trial": name,
        "row": row,
        "barrier": barrier,
        "seen": seen,
        "head": chain.head,
        "count": len(chain.records),
        "records": chain.records,
        "verdict": verdict,
    }


def reference(row: str) -> dict[str, Any]:
    """An uncrashed run of a row, as good as one must be."""
    run = trial(row, "b0")
    run |= {"trial": f"{row}.reference", "barrier": "none"}
    run["seen"] = {
        "mode": "hot",
        "passed": ["b0", "b1", "b2"],
        "first": {"how": "ended", "code": 0},
        "final": run["seen"]["final"],
    }
    run["verdict"] |= {"result": "NOT_CHECKED"}
    return run


def document(
    rows: Sequence[str] = ("r_dup", "r_idem"),
    *,
    k: int = 2,
    barriers: Sequence[str] = ("b0", "b1", "b2"),
    trials: Sequence[Mapping[str, Any]] | None = None,
    rename: Mapping[str, str] | None = None,
    **members: Any,
) -> dict[str, Any]:
    """A document of S1's rows in which every trial is as predicted, unless `trials` are given.

    `rename` shows a row under another name; `members` replace those of the document.
    """
    names = {row: (rename or {}).get(row, row) for row in rows}
    described = [
        {
            "name": names[row],
            "engine": "controls",
            "declaration": S1_ROWS[row].words(),
            "predicted": {b.value: predict(S1_ROWS[row], b, FaultKind.KILL).value for b in Barrier},
        }
        for row in rows
    ]
    if trials is None:
        trials = [
            trial(row["name"], barrier, n, row["predicted"][barrier], mode="hot" if n else "cold")
            for row in described
            for barrier in barriers
            for n in range(k)
        ]
    made = {
        "format": "crashpoint.matrix/1",
        "kind": "matrix",
        "name": "sample",
        "crashpoint": "0.1.0",
        "source": {"digest": "d" * 64, "commit": "c" * 40, "clean": True},
        "lock": "e" * 64,
        "machine": {
            "cpu": "Some CPU",
            "cores": 2,
            "kernel": "6.1",
            "system": "Linux",
            "python": "3.11.7",
        },
        "started": "2026-11-29T16:00:00+00:00",
        "command": "python -m crashpoint.harness.matrix --k 2 --runtimes r_dup --name sample",
        "fault": "kill",
        "k": k,
        "cold": 1,
        "jobs": 4,
        "limit_s": 30.0,
        "void_max": 0.1,
        "barriers": list(barriers),
        "rows": described,
        "predictions": "f" * 64,
        "engines": {
            "controls": {
                "effects": ["charge"],
                "waits_s": {},
                "control": {"name": "r_dup", "declaration": S1_ROWS["r_dup"].words()},
                "subject": {
                    "python": "3.11.7",
                    "implementation": "cpython",
                    "versions": {"engine": "1.2.3"},
                    "modules": {},
                    "unlocked": [],
                },
            }
        },
        "complete": True,
        "references": [reference(name) for name in names.values()],
        "control_trials": [],
        "trials": list(trials),
        "receipt": "sha256:" + "9" * 64,
    }
    made |= members
    made["summary"] = summarise(made)
    return made
