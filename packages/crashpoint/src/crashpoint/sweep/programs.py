"""Many programs swept, each beside what is known of it: the table and the document that keeps it.

A program with a planted fault has to be caught with the outcome that the fault leads to; its twin
without the fault has to pass. `benchmarks/programs.py` lists the programs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from crashpoint.harness.closing import closed
from crashpoint.harness.context import context
from crashpoint.pipeline.evidence import render, write_atomically
from crashpoint.sweep.api import path_of
from crashpoint.sweep.report import OUTCOMES, Report, code_of
from crashpoint.sweep.words import SweepFault

__all__ = ["CLEAN", "FORMAT", "Swept", "fault_in", "swept", "table", "write"]

FORMAT: Final = "crashpoint.programs/1"
CLEAN: Final = str(OUTCOMES["."])
NAMES: Final[Mapping[str, str]] = {code: str(o) for code, o in OUTCOMES.items()} | {"W": "WRONG"}
"""A scenario's letter -> its name; a wrong result is none of a program that does all once."""


@dataclass(frozen=True)
class Swept:
    """One program under one mode. `outcomes` counts scenarios, by one of NAMES."""

    program: str
    about: str
    """Its fault in words, or why it has none."""
    expected: str
    """The outcome that the worst scenario has to have."""
    mode: str
    basis: str
    depth: int
    points: int
    scenarios: int
    outcomes: Mapping[str, int]
    worst: str
    """The outcome of the worst scenario: the fewest crashes, then the worst outcome."""
    crashes: int
    """How many crashes that one has, so the depth that shows the fault; 0 when none failed."""
    id: str
    """Which one it is; empty when none failed."""

    @property
    def holds(self) -> bool:
        """Whether the sweep said what is known."""
        return self.worst == self.expected


def swept(report: Report, *, program: str, about: str, expected: str) -> Swept:
    """A report as a line of the table."""
    worst = report.worst
    return Swept(
        program,
        about,
        expected,
        report.mode,
        str(report.basis),
        report.depth,
        len(report.points),
        report.scenarios,
        {NAMES[code]: number for code, number in sorted(report.outcomes.items())},
        NAMES[code_of(worst.verdict)] if worst else CLEAN,
        len(worst.path) if worst else 0,
        worst.id if worst else "",
    )


def table(rows: Iterable[Swept]) -> str:
    """For a terminal."""
    numbers = f"{'depth':>5}{'points':>8}{'scenarios':>11}{'crashes':>9}"
    lines = [f"{'program':18} {'mode':6}{numbers}  {'worst':13} fault"]
    for row in rows:
        verdict = "" if row.holds else f", EXPECTED {row.expected}"
        lines.append(
            f"{row.program:18} {row.mode:6}{row.depth:>5}{row.points:>8,}{row.scenarios:>11,}"
            f"{row.crashes or '':>9}  {row.worst:13} {row.about}{verdict}"
        )
    return "\n".join(lines)


def write(path: Path, command: str, rows: Sequence[Swept], *, dedupe: bool) -> None:
    """Write the evidence file, closed by a ledger of its own. Raises OSError and LedgerFault."""
    body = {
        "format": FORMAT,
        "kind": "programs",
        "name": path.stem,
        **context(),
        "command": command,
        "dedupe": dedupe,
        "rows": [asdict(row) for row in rows],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, render(closed(body)))


def fault_in(document: Mapping[str, Any]) -> str | None:
    """Why a document's rows do not hold together, or None; its seals are checked apart."""
    for told in document["rows"]:
        row = Swept(**told)
        problem = _fault_in_row(row)
        if problem is not None:
            return f"{row.program}, {row.mode}: {problem}"
    return None


def _fault_in_row(row: Swept) -> str | None:
    unknown = {row.expected, row.worst, *row.outcomes} - set(NAMES.values())
    if unknown:
        return f"there is no outcome {min(unknown)!r}"
    if sum(row.outcomes.values()) != row.scenarios:
        return f"{row.scenarios} scenarios, the outcomes are {sum(row.outcomes.values())}"
    if row.worst not in row.outcomes:
        return f"the worst, {row.worst}, is none of the outcomes"
    if row.worst == CLEAN and len(row.outcomes) > 1:
        return f"the worst is {CLEAN}, and others failed"
    try:
        crashes = len(path_of(row.id)) if row.id else 0
    except SweepFault as fault:
        return str(fault)
    if crashes != row.crashes or (crashes == 0) != (row.worst == CLEAN) or crashes > row.depth:
        return f"{row.worst} after {row.crashes} crashes, the scenario is {row.id!r}"
    return None
