"""What crossed, beside a run without a crash: too often, never, with other content, or unasked."""

import pytest

from crashpoint.canonical import digest
from crashpoint.model import Outcome
from crashpoint.pipeline.judge import Ending, Result
from crashpoint.sweep.engine import Discovery, judge
from crashpoint.sweep.words import Process, Seen, When

ENDED = Process(When.ENDED, ["saved"], result={"n": 1})


def found(usual, *, result=None, **more):
    seen = Seen(usual, swallowed=more.pop("swallowed", ()), ops=more.pop("ops", {}))
    return Discovery(["saved"], seen, result, [], **more)


def verdict(usual, now, **more):
    judged = judge(found(usual, **more), ENDED, Seen(now))
    return judged.outcome, judged.dups, judged.missing


CASES = {
    "as usual": ({"a": ("x",)}, {"a": ("x",)}, (Outcome.EXACTLY_ONCE, 0, 0)),
    "another content, once": ({"a": ("x",)}, {"a": ("y",)}, (Outcome.EXACTLY_ONCE, 0, 0)),
    "twice": ({"a": ("x",)}, {"a": ("x", "x")}, (Outcome.DUPLICATED, 1, 0)),
    "twice with another content": ({"a": ("x",)}, {"a": ("x", "y")}, (Outcome.DIVERGED, 1, 0)),
    "never": ({"a": ("x",)}, {}, (Outcome.LOST, 0, 1)),
    "one of two alike": ({"a": ("x", "x")}, {"a": ("x",)}, (Outcome.LOST, 0, 1)),
    "one of two": ({"a": ("x", "y")}, {"a": ("x",)}, (Outcome.LOST, 0, 1)),
    "one of two, twice": ({"a": ("x", "y")}, {"a": ("x", "x")}, (Outcome.DUPLICATED, 1, 1)),
    "one of two, thrice": ({"a": ("x", "y")}, {"a": ("z",) * 3}, (Outcome.DUPLICATED, 2, 1)),
    "two others": ({"a": ("x", "y")}, {"a": ("p", "q")}, (Outcome.EXACTLY_ONCE, 0, 0)),
    "both, one twice": ({"a": ("x", "y")}, {"a": ("x", "y", "y")}, (Outcome.DUPLICATED, 1, 0)),
    "a third": ({"a": ("x", "y")}, {"a": ("x", "y", "z")}, (Outcome.DIVERGED, 1, 0)),
    "one too many, one missing": (
        {"a": ("x",), "b": ("x",)},
        {"a": ("x", "x")},
        (Outcome.DUPLICATED, 1, 1),
    ),
    "unheard of": ({"a": ("x",)}, {"a": ("x",), "c": ("x",)}, (Outcome.DIVERGED, 1, 0)),
    "instead of another": ({"a": ("x",)}, {"c": ("x",)}, (Outcome.DIVERGED, 1, 1)),
}


@pytest.mark.parametrize(("usual", "now", "judged"), CASES.values(), ids=CASES)
def test_what_crossed_is_compared_with_what_usually_does(usual, now, judged):
    assert verdict(usual, now) == judged


def test_what_one_key_swallowed_is_lost_though_it_is_missing_without_a_crash_too():
    usual = {"a": ("x",)}
    assert verdict(usual, usual, swallowed=("b",)) == (Outcome.LOST, 0, 1)
    assert verdict(usual, {**usual, "b": ("x",)}, swallowed=("b",))[0] is Outcome.DIVERGED
    assert found(usual, swallowed=("b",)).faults() == [
        "b was taken for a repeat of another request and not done: both came with one key"
    ]


@pytest.mark.parametrize(
    ("expected", "judged"),
    [
        ({"file": 2}, (Outcome.EXACTLY_ONCE, 0, 0)),
        ({"file": 2, "comment": 0}, (Outcome.EXACTLY_ONCE, 0, 0)),
        ({"file": 3}, (Outcome.LOST, 0, 1)),
        ({"comment": 1}, (Outcome.LOST, 0, 1)),
        ({"file": 1}, (Outcome.DUPLICATED, 1, 0)),
        ({"file": 1, "comment": 2}, (Outcome.DUPLICATED, 1, 2)),
    ],
)
def test_a_run_without_a_crash_is_compared_with_what_it_should_do(expected, judged):
    usual = {"a": ("x",), "b": ("x",)}
    assert verdict(usual, usual, ops={"file": 2}, expected=expected) == judged
    faults = found(usual, ops={"file": 2}, expected=expected).faults()
    assert bool(faults) == (judged[0] is not Outcome.EXACTLY_ONCE)


def test_what_was_swallowed_is_not_missing_twice():
    usual = {"a": ("x",)}
    assert verdict(usual, usual, ops={"file": 1}, expected={"file": 2}, swallowed=("b",)) == (
        Outcome.LOST,
        0,
        1,
    )


@pytest.mark.parametrize(
    ("result", "passed", "judged"),
    [
        ({"n": 1}, ["saved"], Result.SAME),
        ({"n": 1}, [], Result.SAME),
        ({"n": 2}, ["saved"], Result.WRONG),
        ({"n": 2}, [], Result.WRONG),
        (None, ["saved"], Result.WRONG),
        (None, [], Result.NOT_CHECKED),
    ],
)
def test_a_restart_that_had_nothing_to_do_may_say_nothing(result, passed, judged):
    usual = found({}, result=digest({"n": 1}))
    last = Process(When.ENDED, passed, result=result)
    assert judge(usual, last, Seen({})).result is judged


@pytest.mark.parametrize(
    ("when", "ending"), [(When.HUNG, Ending.STUCK), (When.FAILED, Ending.CRASHLOOP)]
)
def test_a_run_that_does_not_end_is_void_whatever_crossed(when, ending):
    judged = judge(found({"a": ("x",)}), Process(when, [], "why"), Seen({"a": ("x", "x")}))
    assert (judged.outcome, judged.ending) == (Outcome.VOID, ending)
    assert "why" in judged.void
