"""A matrix document as the tables, pictures and pages show it: cells, totals, words and figures.

Pure; everything that is printed anywhere is worked out here once, so no two outputs can disagree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from crashpoint.model import Outcome, worst
from crashpoint.report.words import count, duration, plain, plural

__all__ = ["EXIT_MEANING", "Cell", "View", "interval", "times"]

EXIT_MEANING: Final = {
    0: "every cell agrees with its prediction",
    1: "a cell disagrees with its prediction",
    3: "nothing is certified",
}
"""Exit status of a finished matrix -> what it means."""

INTERRUPTED: Final = "interrupted, so nothing is certified"


@dataclass(frozen=True)
class Cell:
    """One row at one barrier. Times are {n, median, max, p95 from 30 values on} in microseconds."""

    row: str
    barrier: str
    predicted: Outcome
    observed: Outcome
    """The most frequent outcome; of equally frequent ones the worst; VOID if nothing was run."""
    counts: Mapping[Outcome, int]
    hits: int
    k: int
    low: float
    high: float
    """95% Wilson interval of hits / k, fractions."""
    void: int
    """VOID trials and trials not run."""
    not_run: int
    void_above: bool
    """More VOID than the run allows."""
    differing: int
    agrees: bool
    wrong_results: int
    reasons: Mapping[str, int]
    hot: Mapping[str, int] | None
    cold: Mapping[str, int] | None

    @property
    def as_predicted(self) -> bool:
        """Whether all k trials showed the predicted outcome."""
        return self.hits == self.k

    @property
    def alarm(self) -> str:
        """What a reader of the cell must not miss, or nothing."""
        if self.differing and self.observed is not self.predicted:
            return f"predicted {self.predicted}"
        if self.differing:
            return f"{self.differing} differ"
        if not self.counts:
            return f"none of {self.k} run"
        return f"{self.void} of {self.k} VOID" if self.void_above else ""

    @property
    def red_predicted(self) -> bool:
        """Whether the model predicts anything but EXACTLY_ONCE."""
        return self.predicted is not Outcome.EXACTLY_ONCE

    @property
    def shown(self) -> str:
        """The observed outcome, or that nothing was run."""
        return self.observed if self.counts else "not run"

    @property
    def where(self) -> str:
        """Row and barrier in words."""
        return f"{self.row} at {self.barrier}"

    def recover(self, mode: str) -> Mapping[str, int] | None:
        """The times of recoveries that started "hot" or "cold"."""
        return {"hot": self.hot, "cold": self.cold}[mode]

    def counted(self) -> str:
        """Every outcome seen with its number, most frequent first, and trials not run."""
        seen = sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))
        words = [f"{outcome} {number}" for outcome, number in seen]
        if self.not_run:
            words.append(f"not run {self.not_run}")
        return ", ".join(words)


@dataclass(frozen=True)
class View:
    """A whole document; `document` is what it was made from."""

    document: Mapping[str, Any]
    cells: Sequence[Cell]

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> View:
        """Look at a matrix document; raises KeyError for one that lacks a member."""
        return cls(document, [_cell(document, cell) for cell in document["summary"]["cells"]])

    @property
    def rows(self) -> list[str]:
        """Names of the rows in the order in which they were asked for."""
        return [row["name"] for row in self.document["rows"]]

    @property
    def barriers(self) -> list[str]:
        """The barriers of the run."""
        return list(self.document["barriers"])

    def cell(self, row: str, barrier: str) -> Cell:
        """The cell of a row at a barrier; raises StopIteration if the run has none."""
        return next(c for c in self.cells if (c.row, c.barrier) == (row, barrier))

    @property
    def trials(self) -> int:
        """Trials that were sealed."""
        return len(self.document["trials"])

    @property
    def disagreements(self) -> int:
        """Trials that are not VOID and differ from the prediction."""
        return sum(cell.differing for cell in self.cells)

    @property
    def void(self) -> int:
        """VOID trials, without those not run."""
        return sum(cell.void - cell.not_run for cell in self.cells)

    @property
    def not_run(self) -> int:
        """Trials that the run should have and does not."""
        return sum(cell.not_run for cell in self.cells)

    @property
    def exit_code(self) -> int:
        """The exit status of the command that made the document."""
        return int(self.document["summary"]["exit"])

    def totals(self) -> str:
        """Trials, disagreements and VOID in one phrase."""
        words = [
            plural(self.trials, "trial"),
            f"{plural(self.disagreements, 'disagreement')} with the model",
            f"{count(self.void)} VOID",
        ]
        if self.not_run:
            words.append(f"{count(self.not_run)} not run")
        return ", ".join(words)

    def verdict(self) -> str:
        """What the run comes to, without figures."""
        if not self.document["complete"]:
            return INTERRUPTED
        if self.exit_code == 1:
            wrong = [cell.where for cell in self.cells if cell.differing]
            if len(wrong) > 1:
                return f"{count(len(wrong))} cells disagree with their prediction"
        if self.exit_code == 3:
            dead = not all(control["alive"] for control in self.document["summary"]["controls"])
            why = "a control is dead" if dead else "too many trials are VOID or were not run"
            return f"{EXIT_MEANING[3]}, because {why}"
        return EXIT_MEANING[self.exit_code]

    def engines(self) -> list[str]:
        """Each engine with the versions read inside its subjects."""
        return [
            f"engine {plain(name)}: {_versions(facts['subject'], self.document['crashpoint'])}"
            for name, facts in self.document["engines"].items()
        ]

    def waits(self) -> list[str]:
        """Time-outs that engines force on a recovery."""
        return [
            f"{plain(engine)}: {plain(name)} {seconds:g} s"
            for engine, facts in self.document["engines"].items()
            for name, seconds in facts["waits_s"].items()
        ]

    def controls(self) -> list[str]:
        """Each control: what it should be, what it was, and whether it is alive."""
        return [
            f"{'alive' if control['alive'] else 'DEAD'}: {plain(control['row'])} at b1 should be "
            f"{control['predicted']} and was {_counted(control['counts'])}"
            for control in self.document["summary"]["controls"]
        ]

    def findings(self) -> list[str]:
        """What a reader must know: disagreements, VOID reasons, results that differ."""
        found = [plain(finding) for finding in self.document["summary"]["findings"]]
        for cell in self.cells:
            if cell.void - cell.not_run and not cell.void_above:
                reasons = "; ".join(f"{n} x {why}" for why, n in cell.reasons.items())
                found.append(plain(f"{cell.where}: {cell.void} of {cell.k} VOID: {reasons}"))
        return found

    def remarks(self) -> list[str]:
        """What is true of the run and lowers its worth as evidence."""
        document = self.document
        remarks = []
        if not document["complete"]:
            remarks.append("the run was interrupted")
        clean = document["source"]["clean"]
        if clean is None:
            remarks.append("made outside a git checkout")
        elif not clean:
            remarks.append("made from a source tree with uncommitted changes")
        for engine, facts in document["engines"].items():
            if facts["subject"]["unlocked"]:
                names = ", ".join(map(plain, facts["subject"]["unlocked"]))
                remarks.append(f"unlocked: {plain(engine)} ran with other versions of {names}")
            for name, source in facts["subject"].get("sources", {}).items():
                if source["clean"] is not True:
                    remarks.append(f"{plain(engine)} ran with uncommitted changes in {plain(name)}")
        return remarks


def interval(cell: Cell) -> str:
    """The 95% Wilson interval in percent: "92.9-100.0%"."""
    return f"{cell.low * 100:.1f}-{cell.high * 100:.1f}%"


def times(found: Mapping[str, int] | None) -> str:
    """Median, p95 if there is one, maximum and n of a cell's times in one phrase."""
    if found is None:
        return "none"
    if found["n"] == 1:
        return f"{duration(found['median'])}, n 1"
    words = [f"median {duration(found['median'])}"]
    if "p95" in found:
        words.append(f"p95 {duration(found['p95'])}")
    return ", ".join([*words, f"max {duration(found['max'])}", f"n {found['n']}"])


def _cell(document: Mapping[str, Any], cell: Mapping[str, Any]) -> Cell:
    counts = {Outcome(name): number for name, number in cell["counts"].items()}
    most = max(counts.values(), default=0)
    hits, k = cell["rate"]
    low, high = cell["interval"]
    return Cell(
        row=cell["row"],
        barrier=cell["barrier"],
        predicted=Outcome(cell["predicted"]),
        observed=worst(outcome for outcome, number in counts.items() if number == most),
        counts=counts,
        hits=hits,
        k=k,
        low=low,
        high=high,
        void=cell["void"],
        not_run=k - cell["run"],
        void_above=cell["void"] > document["void_max"] * k,
        differing=cell["differing"],
        agrees=cell["agrees"],
        wrong_results=cell["wrong_results"],
        reasons=cell["reasons"],
        hot=cell["recover_hot_us"],
        cold=cell["recover_cold_us"],
    )


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{outcome} {number}" for outcome, number in counts.items()) or "never run"


def _versions(subject: Mapping[str, Any], crashpoint: str) -> str:
    versions = subject["versions"] or {"crashpoint": crashpoint}
    python = f"{subject['implementation']} {subject['python']}"
    return plain(", ".join([*(f"{name} {at}" for name, at in versions.items()), python]))
