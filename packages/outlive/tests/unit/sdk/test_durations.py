"""Durations as text, numbers and timedeltas."""

from __future__ import annotations

import datetime as dt

import pytest

from outlive.sdk.durations import milliseconds, seconds
from outlive.sdk.errors import BadDuration
from outlive.sdk.retry import Retry


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1h", 3600),
        ("250ms", 0.25),
        ("1d12h", 129_600),
        ("1.5m", 90),
        ("2w", 1_209_600),
        ("0s", 0),
        (0, 0),
        (3, 3),
        (0.5, 0.5),
        (dt.timedelta(minutes=2), 120),
    ],
)
def test_what_counts_as_a_duration(value, expected):
    assert seconds(value) == pytest.approx(expected)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "1",
        "h",
        "1 h",
        "-1s",
        "1h ",
        "1H",
        "1y",
        "1" * 500 + "h",
        "٣s",
        -1,
        -0.001,
        float("nan"),
        float("inf"),
        10**400,
        True,
        None,
        b"1h",
        dt.timedelta(seconds=-1),
        "40000d",
    ],
)
def test_what_does_not_is_named_in_the_error(value):
    with pytest.raises(BadDuration, match="pause") as caught:
        seconds(value, "pause")
    assert "\n" not in str(caught.value)
    if not isinstance(value, str):
        assert repr(value)[:20] in str(caught.value)


@pytest.mark.parametrize(("value", "ms"), [("1ms", 1), (0.0001, 1), (0.1, 100), (1.1, 1100)])
def test_milliseconds_are_rounded_up_and_no_further(value, ms):
    assert milliseconds(value) == ms


def test_delays_grow_up_to_the_most():
    retry = Retry(attempts=10, first="1s", factor=3, most="10s")
    assert [retry.delay_s(n) for n in (1, 2, 3, 4)] == [1, 3, 9, 10]
    assert retry.delay_s(100_000) == 10


def test_a_retry_ends_with_its_attempts_and_with_hopeless_errors():
    retry = Retry(attempts=3)
    assert retry.again(2, ValueError())
    assert not retry.again(3, ValueError())
    assert not retry.again(1, TypeError())
    assert Retry(attempts=3, give_up_on=(ValueError,)).again(1, TypeError())


@pytest.mark.parametrize(
    "options",
    [
        {"attempts": 0},
        {"attempts": 1.5},
        {"attempts": True},
        {"first": "soon"},
        {"most": -1},
        {"factor": 0.5},
        {"factor": float("nan")},
        {"factor": float("inf")},
        {"give_up_on": ("ValueError",)},
    ],
)
def test_a_policy_that_cannot_be_meant_is_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        Retry(**options)
