import pytest

from crashpoint.model import Outcome
from crashpoint.report.view import View, interval, times
from unit.report.documents import document, trial


def cell_of(*outcomes: str, k: int | None = None):
    """The cell of r_dup at b1 (predicted DUPLICATED) with these outcomes."""
    trials = [trial("r_dup", "b1", n, outcome) for n, outcome in enumerate(outcomes)]
    made = document(["r_dup"], barriers=["b1"], trials=trials, k=k or len(outcomes))
    return View.of(made).cell("r_dup", "b1")


def test_the_most_frequent_outcome_is_the_observed_one():
    assert cell_of("DUPLICATED", "DUPLICATED", "LOST").observed is Outcome.DUPLICATED


def test_of_equally_frequent_outcomes_the_worst_is_observed():
    assert cell_of("EXACTLY_ONCE", "LOST").observed is Outcome.LOST
    assert cell_of("VOID", "DIVERGED").observed is Outcome.VOID


def test_a_cell_without_trials_is_void_and_says_that_nothing_was_run():
    cell = cell_of(k=3)
    assert (cell.observed, cell.shown, cell.not_run) == (Outcome.VOID, "not run", 3)
    assert cell.counted() == "not run 3"
    assert cell.alarm == "none of 3 run"


@pytest.mark.parametrize(
    ("outcomes", "alarm"),
    [
        (["DUPLICATED"] * 10, ""),
        (["DUPLICATED"] * 9 + ["VOID"], ""),
        (["DUPLICATED"] * 8 + ["VOID"] * 2, "2 of 10 VOID"),
        (["DUPLICATED"] * 9 + ["LOST"], "1 differ"),
        (["LOST"] * 9 + ["DUPLICATED"], "predicted DUPLICATED"),
        (["LOST"] * 5 + ["VOID"] * 5, "predicted DUPLICATED"),
    ],
)
def test_the_alarm_names_what_must_not_be_missed(outcomes, alarm):
    assert cell_of(*outcomes).alarm == alarm


def test_counts_are_listed_most_frequent_first():
    assert cell_of("LOST", "DUPLICATED", "DUPLICATED", k=4).counted() == (
        "DUPLICATED 2, LOST 1, not run 1"
    )


def test_totals_and_verdict_of_a_run_that_agrees():
    view = View.of(document())
    assert view.totals() == "12 trials, 0 disagreements with the model, 0 VOID"
    assert view.verdict() == "every cell agrees with its prediction"
    assert (view.findings(), view.remarks(), view.waits()) == ([], [], [])
    assert view.controls() == ["alive: r_dup at b1 should be DUPLICATED and was DUPLICATED 2"]
    assert view.engines() == ["engine controls: engine 1.2.3, cpython 3.11.7"]


def test_one_disagreement_is_counted_in_the_singular():
    trials = [trial("r_dup", "b1", 0, "LOST"), trial("r_dup", "b1", 1, "DUPLICATED")]
    view = View.of(document(["r_dup"], barriers=["b1"], trials=trials))
    assert view.totals() == "2 trials, 1 disagreement with the model, 0 VOID"
    assert view.verdict() == "a cell disagrees with its prediction"


def test_several_disagreeing_cells_are_counted():
    trials = [trial("r_dup", b, n, "LOST") for b in ("b0", "b2") for n in range(2)]
    alive = [trial("r_dup", "b1", n, "DUPLICATED") for n in range(2)]
    view = View.of(document(["r_dup"], barriers=["b0", "b2"], trials=trials, control_trials=alive))
    assert view.verdict() == "2 cells disagree with their prediction"


def test_the_verdict_says_why_nothing_is_certified():
    void = [trial("r_dup", "b1", n, o) for n, o in enumerate(["VOID", "DUPLICATED"])]
    view = View.of(document(["r_dup"], barriers=["b1"], trials=void))
    assert (
        view.verdict() == "nothing is certified, because too many trials are VOID or were not run"
    )
    alone = document(["r_idem"], trials=[trial("r_idem", "b1", n) for n in range(2)])
    assert View.of(alone).verdict() == "nothing is certified, because a control is dead"


def test_an_interrupted_run_certifies_nothing_whatever_its_cells_say():
    view = View.of(document(complete=False))
    assert view.verdict() == "interrupted, so nothing is certified"
    assert view.remarks() == ["the run was interrupted"]


def test_trials_not_run_are_no_void_trials():
    trials = [trial("r_dup", "b1", 0, "DUPLICATED")]
    view = View.of(document(["r_dup"], barriers=["b1"], trials=trials, k=3))
    assert view.totals() == "1 trial, 0 disagreements with the model, 0 VOID, 2 not run"


def test_void_below_the_limit_is_told_as_well_with_its_reason():
    trials = [trial("r_dup", "b1", n, "DUPLICATED") for n in range(9)]
    trials.append(trial("r_dup", "b1", 9, "VOID", void="the recovery\x1b[31m hung"))
    view = View.of(document(["r_dup"], barriers=["b1"], trials=trials, k=10))
    assert view.exit_code == 0
    assert view.findings() == ["r_dup at b1: 1 of 10 VOID: 1 x the recovery\\x1b[31m hung"]


def test_remarks_say_what_lowers_the_worth_of_a_run():
    made = document(source={"digest": "", "commit": None, "clean": False})
    made["engines"]["controls"]["subject"]["unlocked"] = ["langgraph"]
    made["engines"]["controls"]["subject"]["sources"] = {
        name: {"digest": "", "commit": None, "clean": clean}
        for name, clean in (("one", True), ("two", False), ("three", None))
    }
    made["engines"]["controls"]["waits_s"] = {"lease": 60.0}
    view = View.of(made)
    assert view.remarks() == [
        "made from a source tree with uncommitted changes",
        "unlocked: controls ran with other versions of langgraph",
        "controls ran with uncommitted changes in two",
        "controls ran with uncommitted changes in three",
    ]
    assert view.waits() == ["controls: lease 60 s"]
    made["source"]["clean"] = None
    assert View.of(made).remarks()[0] == "made outside a git checkout"


def test_times_name_p95_only_where_there_is_one_and_no_median_of_one():
    assert times(None) == "none"
    assert times({"n": 1, "median": 9000, "max": 9000}) == "9.00 ms, n 1"
    assert times({"n": 40, "median": 9000, "max": 12_000, "p95": 11_000}) == (
        "median 9.00 ms, p95 11.0 ms, max 12.0 ms, n 40"
    )


def test_intervals_are_percent():
    assert interval(cell_of(*["DUPLICATED"] * 10)) == "72.2-100.0%"
