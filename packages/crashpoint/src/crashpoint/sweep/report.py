"""What a sweep came to, kept small: counts, a grid of outcomes, the failures worth reading."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from crashpoint.model import Outcome
from crashpoint.pipeline.judge import Result
from crashpoint.sweep.words import KINDS, Scenario, Seen, Verdict, kind_of

if TYPE_CHECKING:
    from crashpoint.sweep.story import Story

__all__ = [
    "CODES",
    "FAILURES_MAX",
    "OUTCOMES",
    "WORST_FIRST",
    "First",
    "NotExactlyOnce",
    "Report",
    "as_json",
    "code_of",
    "described",
    "said",
]

FAILURES_MAX: Final = 500
"""Failing scenarios with several crashes that are kept whole; all are counted."""

CODES: Final[dict[str, str]] = {
    ".": "each effect once, the run ended, the result as without a crash",
    "D": "DUPLICATED",
    "V": "DIVERGED",
    "L": "LOST",
    "W": "each effect once, but the result is WRONG",
    "?": "VOID: it hung, kept failing, or was not deterministic",
}
"""A scenario in one letter."""
OUTCOMES: Final[dict[str, Outcome]] = {
    ".": Outcome.EXACTLY_ONCE,
    "D": Outcome.DUPLICATED,
    "V": Outcome.DIVERGED,
    "L": Outcome.LOST,
    "W": Outcome.EXACTLY_ONCE,
    "?": Outcome.VOID,
}
"""A letter's outcome; a wrong result is no outcome of effects."""
_LETTERS: Final = {
    Outcome.DUPLICATED: "D",
    Outcome.DIVERGED: "V",
    Outcome.LOST: "L",
    Outcome.VOID: "?",
}
WORST_FIRST: Final = "VDL?W"


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
    """The result of a sweep. `complete` is False when it was cut short or part was asked for."""

    job: str
    mode: str
    basis: str
    depth: int
    fault: str
    points: Sequence[str]
    places: Sequence[str]
    clean: Seen
    already: Sequence[str] = ()
    """What is wrong without any crash, a sentence each."""
    again: str = ""
    """The command that runs one scenario again, without its id."""
    prefix: str = ""
    """What stands before an id in that command, to tell this sweep from others."""
    repro: str = ""
    """The file that runs the worst scenario again, if one was written."""
    skipped: bool = False
    """Another sweep was asked for, so nothing was run here."""
    stories: list[Story] = field(default_factory=list)
    """Scenarios told in full, the worst first."""
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
        if code != "." and (len(scenario.path) == 1 or len(self.failures) < FAILURES_MAX):
            self.failures.append(scenario)

    @property
    def failed(self) -> int:
        """Scenarios that did not do everything exactly once."""
        return self.scenarios - self.outcomes["."]

    @property
    def worst(self) -> Scenario | None:
        """What to look at first: fewest crashes, then the worst outcome, then the earliest."""
        return min(self.failures, key=_worst_first, default=None)

    def exemplars(self, most: int) -> list[Scenario]:
        """The worst failure, then one of each other class: outcome, counts, kind of last point."""
        classes: dict[Any, Scenario] = {}
        for scenario in sorted(self.failures, key=_worst_first):
            verdict = scenario.verdict
            counts = (verdict.dups, verdict.missing, verdict.ending, verdict.result)
            kind = (len(scenario.path), code_of(verdict), counts, scenario.names[-1])
            classes.setdefault(kind, scenario)
        return list(classes.values())[:most]

    def command(self, scenario_id: str) -> str:
        """The command that runs one scenario again; empty when there is none."""
        return f"{self.again} {shlex.quote(self.prefix + scenario_id)}" if self.again else ""

    def assert_exactly_once(self) -> None:
        """Raise NotExactlyOnce unless every scenario did each effect once and ended as it should.

        A sweep that was skipped, because another one of the test was asked for, says nothing.
        """
        __tracebackhide__ = True  # pytest: show the test's line, not this one
        if self.skipped:
            return
        worst = self.worst
        if worst is not None:
            raise NotExactlyOnce(self.complaint())
        if not self.scenarios:
            raise NotExactlyOnce("no scenario was run: nothing is shown")
        if not self.clean.crossings:
            raise NotExactlyOnce(
                "no receiver saw an effect, even without a crash: nothing is shown. Send requests "
                "with tracker() or payments(), or look at report.failed"
            )

    def complaint(self) -> str:
        """What went wrong, the scenario that shows it best, and the command to run it again."""
        from crashpoint.report.sweep_text import complaint

        return complaint(as_json(self))


def _worst_first(scenario: Scenario) -> tuple[int, int, tuple[int, ...]]:
    rank = WORST_FIRST.index(code_of(scenario.verdict))
    return len(scenario.path), rank, scenario.path


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
        "already": list(report.already),
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
        "prefix": report.prefix,
        "repro": report.repro,
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
            {
                "id": s.id,
                "path": list(s.path),
                "names": list(s.names),
                "code": code_of(s.verdict),
                "ending": s.verdict.ending,
                "dups": s.verdict.dups,
                "missing": s.verdict.missing,
                "said": said(s.verdict),
            }
            for s in sorted(report.failures, key=_worst_first)
        ],
        "stories": [story.as_json() for story in report.stories],
    }
