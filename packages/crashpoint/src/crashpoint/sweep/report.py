"""What a sweep came to, kept small: counts, a grid of outcomes, the failures worth reading."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from crashpoint.model import Outcome
from crashpoint.pipeline.judge import Result
from crashpoint.sweep.words import KINDS, Scenario, Seen, Verdict, kind_of

__all__ = ["CODES", "FAILURES_MAX", "First", "NotExactlyOnce", "Report", "code_of"]

FAILURES_MAX: Final = 500
"""Failing scenarios that are kept whole; all are counted."""

CODES: Final[dict[str, str]] = {
    ".": "each effect once, the run ended, the result as without a crash",
    "D": "DUPLICATED",
    "V": "DIVERGED",
    "L": "LOST",
    "W": "each effect once, but the result is WRONG",
    "?": "VOID: it hung, kept failing, or was not deterministic",
}
"""A scenario in one letter."""
_LETTERS: Final = {
    Outcome.DUPLICATED: "D",
    Outcome.DIVERGED: "V",
    Outcome.LOST: "L",
    Outcome.VOID: "?",
}
_WORST_FIRST: Final = "VDL?W"


class NotExactlyOnce(AssertionError):
    """A scenario did not do everything exactly once; str() tells which, why and how to see it."""


@dataclass
class First:
    """The scenarios that crash the first process at one point."""

    name: str
    code: str = "?"
    """What a single crash there came to."""
    again: list[tuple[str, str]] = field(default_factory=list)
    """For each second crash: the name of its point, and a code."""


@dataclass
class Report:
    """The result of a sweep. `complete` is False when it was cut short or only part was asked for."""

    job: str
    mode: str
    basis: str
    depth: int
    fault: str
    points: Sequence[str]
    places: Sequence[str]
    clean: Seen
    again: str = ""
    """The command that runs one scenario again, without its id."""
    firsts: dict[int, First] = field(default_factory=dict)
    outcomes: Counter[str] = field(default_factory=Counter)
    """Scenarios by code."""
    failures: list[Scenario] = field(default_factory=list)
    scenarios: int = 0
    dups: int = 0
    missing: int = 0
    asks: int = 0
    calls: int = 0
    processes: int = 0
    recovered: int = 0
    seconds: float = 0.0
    complete: bool = False

    def add(self, scenario: Scenario) -> None:
        """Count a scenario, and keep it if it failed."""
        verdict, code = scenario.verdict, code_of(scenario.verdict)
        self.scenarios += 1
        self.outcomes[code] += 1
        self.dups += verdict.dups
        self.missing += verdict.missing
        self.asks += verdict.asks
        self.calls += verdict.calls
        first = self.firsts.setdefault(scenario.path[0], First(scenario.names[0]))
        if len(scenario.path) == 1:
            first.code = code
        elif len(scenario.path) == 2:
            first.again.append((scenario.names[1], code))
        if code != "." and len(self.failures) < FAILURES_MAX:
            self.failures.append(scenario)

    @property
    def failed(self) -> int:
        """Scenarios that did not do everything exactly once."""
        return self.scenarios - self.outcomes["."]

    @property
    def worst(self) -> Scenario | None:
        """The failure to look at first: fewest crashes, then the worst outcome, then the earliest."""
        return min(
            self.failures,
            key=lambda s: (len(s.path), _WORST_FIRST.index(code_of(s.verdict)), s.path),
            default=None,
        )

    def assert_exactly_once(self) -> None:
        """Raise NotExactlyOnce unless every scenario did each effect once and ended as it should."""
        worst = self.worst
        if worst is not None:
            raise NotExactlyOnce(self.complaint(worst))
        if not self.scenarios:
            raise NotExactlyOnce("no scenario was run: nothing is shown")

    def complaint(self, worst: Scenario) -> str:
        """What went wrong, which scenario shows it, and the command that runs it again."""
        counted = ", ".join(
            f"{n} {CODES[code].partition(':')[0]}"
            for code, n in self.outcomes.most_common()
            if code != "."
        )
        lines = [
            f"{self.failed} of {self.scenarios} crash scenarios are not exactly once ({counted})",
            f"worst: {worst.id}: {said(worst.verdict)}",
        ]
        for process, (n, name) in enumerate(zip(worst.path, worst.names, strict=True), start=1):
            who = "the first process" if process == 1 else f"restart {process - 1}"
            where = f", {self.places[n - 1]}" if process == 1 and len(self.places) >= n else ""
            lines.append(f"  {who} died at point {n}, {described(name)}{where}")
        if self.again:
            lines.append(f"again: {self.again} {worst.id}")
        return "\n".join(lines)


def code_of(verdict: Verdict) -> str:
    """A verdict in one letter of CODES."""
    if verdict.outcome is not Outcome.EXACTLY_ONCE:
        return _LETTERS[verdict.outcome]
    return "W" if verdict.result is Result.WRONG else "."


def described(name: str) -> str:
    """A point in words: `accepted:comment` is "a receiver has accepted a request (comment)"."""
    kind, _, what = name.partition(":")
    words = KINDS.get(kind_of(name), kind)
    return f"{words} ({what})" if what else words


def said(verdict: Verdict) -> str:
    """A verdict in words."""
    if verdict.void is not None:
        return f"{verdict.ending}, VOID: {verdict.void}"
    parts = [str(verdict.outcome)]
    if verdict.dups:
        parts.append(f"{verdict.dups} too many")
    if verdict.missing:
        parts.append(f"{verdict.missing} missing")
    if verdict.result is Result.WRONG:
        parts.append("the result differs from that of a run without a crash")
    return ", ".join(parts)


def as_json(report: Report) -> dict[str, Any]:
    """The report as JSON values, for evidence and pages."""
    return {
        "job": report.job,
        "mode": report.mode,
        "basis": report.basis,
        "depth": report.depth,
        "fault": report.fault,
        "complete": report.complete,
        "points": list(report.points),
        "places": list(report.places),
        "clean": {name: len(actions) for name, actions in report.clean.crossings.items()},
        "scenarios": report.scenarios,
        "outcomes": dict(sorted(report.outcomes.items())),
        "sums": {
            "dups": report.dups,
            "missing": report.missing,
            "asks": report.asks,
            "calls": report.calls,
        },
        "processes": report.processes,
        "recovered": report.recovered,
        "again": report.again,
        "firsts": [
            {
                "n": n,
                "name": first.name,
                "code": first.code,
                "again": "".join(code for _, code in first.again),
                "names": [name for name, _ in first.again],
            }
            for n, first in sorted(report.firsts.items())
        ],
        "failures": [
            {"id": s.id, "path": list(s.path), "names": list(s.names), "said": said(s.verdict)}
            for s in report.failures
        ],
    }
