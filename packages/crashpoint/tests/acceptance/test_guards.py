"""A guard that is removed is missed: the matrix disagrees, or certifies nothing.

Guards are what the rows declare (a key, an identity that is kept), the hold at b1, the check of the
place where a fault landed, and the control without which a matrix proves nothing.
"""

from dataclasses import replace

from acceptance.broken_adapter import TESTS
from crashpoint.adapters.controls import Controls
from crashpoint.adapters.langgraph import LangGraph
from crashpoint.model import S1_ROWS, Barrier, FaultKind
from crashpoint.pipeline import judge
from crashpoint.pipeline.contract import Row
from matrices import document_of

PAST = "at b1 the completion should be not recorded, the engine's store had it recorded"


class _Unguarded:
    """An adapter with more rows, variations each; `how` maps their names to what they declare."""

    def __init__(self, how):
        self._how = how

    def rows(self):
        return [*super().rows(), *(Row(name, S1_ROWS[row]) for name, row in self._how.items())]

    def environment(self):
        spec = super().environment()
        return replace(
            spec, preload=(*spec.preload, "acceptance.unguarded_program"), path=(str(TESTS),)
        )

    def _varied(self, row, launch):
        if row.name not in self._how:
            return launch
        return replace(launch, entry=self.entry, args={**launch.args, "how": row.name})


class UnguardedControls(_Unguarded, Controls):
    entry = "acceptance.unguarded_program:run"

    def start(self, row, trial):
        return self._varied(row, super().start(row, trial))


class UnguardedLangGraph(_Unguarded, LangGraph):
    entry = "acceptance.unguarded_program:graph"

    def start(self, row, trial):
        launch = super().start(row, trial)
        return self._varied(row, self._with_function(row, launch))

    def recover(self, row, trial):
        launch = super().recover(row, trial)
        return self._varied(row, self._with_function(row, launch))

    def _with_function(self, row, launch):
        if row.name not in self._how:
            return launch
        return replace(launch, args={**launch.args, "function": launch.entry.partition(":")[2]})


def measured(adapter, rows, *, barriers=(Barrier.B1,), fault=FaultKind.KILL):
    """Exit code, the outcome of each row, the reasons of VOID by row, and the findings."""
    document, _ = document_of(adapter, rows, barriers=barriers, fault=fault)
    summary = document["summary"]
    return (
        summary["exit"],
        {cell["row"]: next(iter(cell["counts"]), None) for cell in summary["cells"]},
        {t["row"]: t["verdict"]["void"] for t in document["trials"] if "void" in t["verdict"]},
        summary["findings"],
    )


def without_place_check(monkeypatch):
    monkeypatch.setattr(judge, "_misplaced", lambda chain, want, seen: None)


CONTROLS = UnguardedControls(
    {
        "idem_without_a_key": "r_idem",
        "twophase_with_a_fresh_identity": "r_twophase",
        "dup_past_b1": "r_dup",
        "idem_past_b1": "r_idem",
    }
)
LANGGRAPH = UnguardedLangGraph(
    {
        "idem_without_a_key": "r_lg_idem",
        "twophase_with_a_fresh_identity": "r_lg_twophase",
        "naive_not_held": "r_lg_naive",
        "idem_not_held": "r_lg_idem",
        "naive_with_a_late_write": "r_lg_naive",
        "naive_in_a_late_write": "r_lg_naive",
    }
)


def test_controls_with_their_guards():
    code, outcomes, _, findings = measured(CONTROLS, ["r_dup", "r_idem", "r_twophase"])
    assert (code, findings) == (0, [])
    assert outcomes == {
        "r_dup": "DUPLICATED",
        "r_idem": "EXACTLY_ONCE",
        "r_twophase": "EXACTLY_ONCE",
    }


def test_controls_without_their_guards():
    rows = ["r_dup", "idem_without_a_key", "twophase_with_a_fresh_identity"]
    code, outcomes, void, findings = measured(CONTROLS, rows)
    assert (code, void) == (1, {})
    assert outcomes["idem_without_a_key"] == "DUPLICATED"
    assert outcomes["twophase_with_a_fresh_identity"] == "DIVERGED"
    assert findings == [
        "idem_without_a_key at b1: predicted EXACTLY_ONCE, observed DUPLICATED 1",
        "twophase_with_a_fresh_identity at b1: predicted EXACTLY_ONCE, observed DIVERGED 1",
    ]


def test_a_control_that_is_not_red_certifies_nothing():
    adapter = UnguardedControls({"dup_with_a_key": "r_dup"})
    adapter.control = "dup_with_a_key"
    code, outcomes, _, findings = measured(adapter, ["r_idem"])
    assert (code, outcomes) == (3, {"r_idem": "EXACTLY_ONCE"})
    assert findings == [
        "control dup_with_a_key at b1 is not red: EXACTLY_ONCE 1; nothing is certified"
    ]


def test_a_fault_that_lands_elsewhere_is_void():
    code, _, void, _ = measured(CONTROLS, ["r_dup", "dup_past_b1", "idem_past_b1"])
    assert (code, void) == (3, {"dup_past_b1": PAST, "idem_past_b1": PAST})


def test_without_the_check_of_the_place_it_would_pass(monkeypatch):
    without_place_check(monkeypatch)
    code, outcomes, void, _ = measured(CONTROLS, ["r_dup", "idem_past_b1"])
    assert (code, outcomes["idem_past_b1"], void) == (0, "EXACTLY_ONCE", {})
    code, outcomes, void, _ = measured(CONTROLS, ["r_dup", "dup_past_b1"])
    assert (code, outcomes["dup_past_b1"], void) == (1, "EXACTLY_ONCE", {})


def test_langgraph_without_its_guards():
    rows = ["r_lg_naive", "r_lg_idem", "r_lg_twophase", *list(LANGGRAPH._how)[:4]]
    code, outcomes, void, findings = measured(LANGGRAPH, rows)
    assert outcomes == {
        "r_lg_naive": "DUPLICATED",
        "r_lg_idem": "EXACTLY_ONCE",
        "r_lg_twophase": "EXACTLY_ONCE",
        "idem_without_a_key": "DUPLICATED",
        "twophase_with_a_fresh_identity": "DIVERGED",
        "naive_not_held": "VOID",
        "idem_not_held": "VOID",
    }
    assert void == {"naive_not_held": PAST, "idem_not_held": PAST}
    assert len(findings) == 4
    assert code == 1


def test_langgraph_without_the_check_of_the_place_would_look_better(monkeypatch):
    without_place_check(monkeypatch)
    code, outcomes, void, _ = measured(LANGGRAPH, ["r_lg_naive", "naive_not_held", "idem_not_held"])
    assert (code, void) == (1, {})
    assert outcomes["naive_not_held"] == "EXACTLY_ONCE"
    assert outcomes["idem_not_held"] == "EXACTLY_ONCE"


def test_a_frozen_process_never_holds_the_database():
    rows = ["r_lg_naive", "naive_with_a_late_write", "naive_in_a_late_write"]
    _, _, void, _ = measured(LANGGRAPH, rows, barriers=(Barrier.B0,), fault=FaultKind.FREEZE)
    assert void == {
        "naive_in_a_late_write": "the recovery failed: it ended with exit status 1 "
        "(sqlite3.OperationalError: database is locked)"
    }
