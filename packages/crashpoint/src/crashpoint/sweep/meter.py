"""How far a sweep is: scenarios a second, which point it is at, and how long it may still take."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from crashpoint.report.words import count, plural

if TYPE_CHECKING:
    from crashpoint.sweep.report import Report
    from crashpoint.sweep.words import Scenario

__all__ = ["Meter"]


class Meter:
    """Hears each scenario (`tell`) and says where the sweep is (`line`)."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._begun = now_s()
        self._report: Report | None = None
        self._at = 0

    def tell(self, scenario: Scenario, report: Report) -> None:
        """One more scenario."""
        self._report = report
        self._at = scenario.path[0]

    def line(self) -> str:
        """One line, without the job's name: it comes from the program and may be long."""
        report = self._report
        passed_s = self._now_s() - self._begun
        if report is None:
            return f"looking for points, {passed_s:.0f} s"
        words = [plural(report.scenarios, "scenario")]
        if passed_s > 0:
            words.append(f"{report.scenarios / passed_s:,.0f}/s")
        words.append(f"point {count(self._at)} of {count(len(report.points))}")
        if report.failed:
            words.append(f"{count(report.failed)} not exactly once")
        share = self._share(report)
        if 0 < share < 1:
            words.append(f"ETA {passed_s * (1 - share) / share:.0f} s")
        return ", ".join(words)

    def _share(self, report: Report) -> float:
        """Roughly how much is done: after a late crash there are fewer points left to crash at."""
        points = len(report.points)
        weights = [1 if report.depth == 1 else points - n + 1 for n in range(1, points + 1)]
        return sum(weights[: self._at - 1]) / sum(weights)
