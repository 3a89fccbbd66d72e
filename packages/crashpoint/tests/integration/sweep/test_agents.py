"""Agents with a classic fault each are caught with the right outcome named; their twins pass.

In mode raise to depth 2. With killed processes the worst scenario is run again under the same id,
and the twins are swept to depth 1.
"""

from difflib import unified_diff

import pytest

from crashpoint.sweep.api import sweep
from crashpoint.sweep.faults import SweepFaultKind
from crashpoint.sweep.report import NotExactlyOnce
from crashpoint.sweep.words import kind_of
from sweep_agents.pairs import PAIRS

DIFFERENCE_MAX = 8
"""Lines that may be other ones in a twin."""
# A look-up that finds nothing says nothing about a request that is still on its way.
KEYED_PAIRS = [pair for pair in PAIRS if pair.name not in {"nightly", "payouts"}]
FAULTS = [
    SweepFaultKind.ERROR,
    SweepFaultKind.LOST_REPLY,
    SweepFaultKind.LATE_ACCEPT,
    SweepFaultKind.RECEIVER_CRASH,
]

each_pair = pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)


@each_pair
def test_a_twin_differs_by_the_fault_alone(pair):
    difference = [
        line
        for line in unified_diff(pair.lines("buggy"), pair.lines("right"), n=0, lineterm="")
        if line[0] in "+-" and not line.startswith(("+++", "---"))
    ]
    assert 0 < len(difference) <= DIFFERENCE_MAX, "\n".join(difference)
    assert 60 <= len(pair.lines("right")) <= 150


@each_pair
def test_the_fault_is_caught_and_named_and_its_worst_scenario_is_the_same_with_killed_processes(
    pair,
):
    report = sweep(pair.job("buggy"), pair.options())
    worst = report.worst
    assert worst is not None
    assert (worst.verdict.outcome, kind_of(worst.names[-1])) == (pair.outcome, pair.point)
    assert len(worst.path) == 1
    with pytest.raises(NotExactlyOnce) as complaint:
        report.assert_exactly_once()
    assert pair.outcome in str(complaint.value)
    assert pair.effect in str(complaint.value)
    assert f"{pair.name}_buggy.py:" in str(complaint.value)

    killed = sweep(pair.job("buggy"), pair.options(mode="fork"), only=worst.id)
    assert killed.basis == "KILLED"
    assert [scenario.verdict for scenario in killed.failures] == [worst.verdict]


@each_pair
def test_the_twin_passes(pair):
    report = sweep(pair.job("right"), pair.options())
    report.assert_exactly_once()
    assert report.scenarios > len(report.points)


@each_pair
def test_the_twin_passes_with_killed_processes(pair):
    report = sweep(pair.job("right"), pair.options(mode="fork", depth=1))
    report.assert_exactly_once()
    assert report.scenarios == len(report.points)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("pair", KEYED_PAIRS, ids=lambda pair: pair.name)
def test_the_twin_passes_under_other_faults(pair, fault):
    sweep(pair.job("right"), pair.options(fault=fault, depth=1)).assert_exactly_once()


@pytest.mark.parametrize("name", ["nightly", "payouts"])
def test_a_look_up_is_no_answer_while_a_request_is_on_its_way(name):
    pair = next(pair for pair in PAIRS if pair.name == name)
    options = pair.options(fault=SweepFaultKind.LATE_ACCEPT, depth=1)
    report = sweep(pair.job("right"), options)
    assert report.worst is not None
    assert report.worst.verdict.outcome == "DUPLICATED"


def test_a_tool_that_fails_after_acceptance_is_caught_without_any_crash():
    pair = next(pair for pair in PAIRS if pair.name == "mails")
    options = pair.options(fault=SweepFaultKind.LOST_REPLY, depth=1)
    report = sweep(pair.job("buggy"), options)
    assert report.worst is not None
    assert report.worst.verdict.outcome == "DUPLICATED"
    # Nothing was restarted: the program did it itself, by trying again.
    assert report.recovered == 0
