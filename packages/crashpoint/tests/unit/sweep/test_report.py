import shlex

import pytest

from crashpoint.model import Outcome
from crashpoint.pipeline.judge import Ending, Result
from crashpoint.sweep.report import FAILURES_MAX, NotExactlyOnce, Report, as_json, code_of, said
from crashpoint.sweep.words import Scenario, Seen, Verdict

GOOD = Verdict(Outcome.EXACTLY_ONCE)
TWICE = Verdict(Outcome.DUPLICATED, dups=1)
LOST = Verdict(Outcome.LOST, missing=1)
STUCK = Verdict(Outcome.VOID, Ending.STUCK, void="the restart hung: no end")
WRONG = Verdict(Outcome.EXACTLY_ONCE, result=Result.WRONG)


def report_of(*scenarios, **options):
    made = Report(
        job="job",
        mode="raise",
        basis="IN_PROCESS",
        depth=2,
        fault="kill",
        points=["a", "b", "c"],
        places=[],
        clean=Seen({"file": ("A",)}),
        **options,
    )
    for path, verdict in scenarios:
        made.add(Scenario(path, tuple("abc"[n - 1] for n in path), verdict))
    return made


@pytest.mark.parametrize(
    ("verdict", "code"),
    [(GOOD, "."), (TWICE, "D"), (LOST, "L"), (STUCK, "?"), (WRONG, "W")],
)
def test_a_verdict_has_a_letter(verdict, code):
    assert code_of(verdict) == code


def test_everything_is_counted():
    made = report_of(((1,), GOOD), ((1, 2), TWICE), ((2,), LOST), ((2, 1), GOOD))
    assert made.scenarios == 4
    assert made.outcomes == {".": 2, "D": 1, "L": 1}
    assert (made.dups, made.missing, made.failed) == (1, 1, 2)
    assert [first.code for first in made.firsts.values()] == [".", "L"]
    assert made.firsts[1].again == [("b", "D")]


def test_the_worst_has_few_crashes_then_a_bad_outcome_then_comes_early():
    made = report_of(((1, 1), LOST), ((3,), TWICE), ((2,), TWICE), ((1,), STUCK))
    assert made.worst.path == (2,)
    assert report_of(((1,), GOOD)).worst is None


def test_single_crashes_are_kept_however_many_failures_there_are():
    many = [((1, 2), TWICE)] * (FAILURES_MAX + 5)
    made = report_of(*many, ((3,), LOST))
    assert made.failed == FAILURES_MAX + 6
    assert len(made.failures) == FAILURES_MAX + 1
    assert made.worst.path == (3,)


def test_exemplars_differ_in_kind_and_begin_with_the_worst():
    made = report_of(
        ((1, 2), TWICE), ((2, 2), TWICE), ((2, 3), TWICE), ((3,), LOST), ((1, 3), LOST)
    )
    assert [s.path for s in made.exemplars(9)] == [(3,), (1, 2), (2, 3), (1, 3)]
    assert [s.path for s in made.exemplars(1)] == [(3,)]


def test_a_good_report_asserts_silently():
    report_of(((1,), GOOD)).assert_exactly_once()


@pytest.mark.parametrize("verdict", [TWICE, LOST, STUCK, WRONG])
def test_no_bad_scenario_passes(verdict):
    with pytest.raises(NotExactlyOnce, match="1 of 2 crash scenarios not exactly once"):
        report_of(((1,), GOOD), ((2,), verdict)).assert_exactly_once()


def test_a_program_without_an_effect_is_no_pass():
    report = report_of(((1,), GOOD))
    report.clean = Seen({})
    with pytest.raises(NotExactlyOnce, match="no receiver saw an effect"):
        report.assert_exactly_once()


def test_nothing_run_is_no_pass():
    with pytest.raises(NotExactlyOnce, match="no scenario was run"):
        report_of().assert_exactly_once()


def test_what_was_not_asked_for_says_nothing():
    report_of(skipped=True).assert_exactly_once()


@pytest.mark.parametrize("scenario", ["8-accepted:comment", "1-it's.2-$x;y", "1-(a|b)&"])
def test_the_command_can_be_pasted_into_a_shell(scenario):
    made = report_of(again="pytest test_a.py::test_b --crash-only", prefix="2/")
    words = shlex.split(made.command(scenario))
    assert words == ["pytest", "test_a.py::test_b", "--crash-only", "2/" + scenario]


def test_a_verdict_is_said_in_words():
    assert said(TWICE) == "DUPLICATED, 1 too many"
    assert said(LOST) == "LOST, 1 missing"
    assert said(STUCK) == "STUCK, VOID: the restart hung: no end"
    assert "result differs" in said(WRONG)


def test_failures_are_listed_worst_first():
    listed = as_json(report_of(((1, 1), TWICE), ((2,), LOST)))["failures"]
    assert [(failure["id"], failure["code"]) for failure in listed] == [
        ("2-b", "L"),
        ("1-a.1-a", "D"),
    ]
