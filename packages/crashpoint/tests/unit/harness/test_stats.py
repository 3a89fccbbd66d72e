"""Wilson intervals against published values and by their properties; percentiles."""

import math
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crashpoint.harness.stats import P95_MIN, Z95, percentiles, wilson


@pytest.mark.parametrize(
    ("hits", "n", "low", "high"),
    [
        # Newcombe, Statistics in Medicine 17 (1998), table I, method 3.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        # What a matrix shows most often: nothing else was seen.
        (50, 50, 0.9287, 1.0),
        (100, 100, 0.963, 1.0),
        (0, 100, 0.0, 0.037),
        (28, 30, 0.7868, 0.9815),
        (1, 1, 0.2065, 1.0),
        (0, 1, 0.0, 0.7935),
        (1, 2, 0.0945, 0.9055),
    ],
)
def test_published_intervals(hits, n, low, high):
    assert wilson(hits, n) == (low, high)


def test_the_quantile_is_the_normal_one():
    assert math.isclose(Z95, NormalDist().inv_cdf(0.975), abs_tol=1e-12)


def test_of_nothing_nothing_is_known():
    assert wilson(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize(("hits", "n"), [(-1, 5), (6, 5), (1, 0), (0, -1)])
def test_no_proportion_no_interval(hits, n):
    with pytest.raises(ValueError, match=f"{hits} of {n} is not a proportion"):
        wilson(hits, n)


proportions = st.integers(1, 10_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(proportions)
def test_the_rate_lies_within(proportion):
    hits, n = proportion
    low, high = wilson(hits, n)
    assert 0 <= low <= hits / n <= high <= 1
    assert low < high


@given(proportions)
def test_misses_mirror_hits(proportion):
    hits, n = proportion
    low, high = wilson(hits, n)
    assert wilson(n - hits, n) == pytest.approx((1 - high, 1 - low), abs=1e-9)


def score(rate, end, n):
    """Standard errors between the rate and an end of the interval; large beyond 0 and 1."""
    return (rate - end) / math.sqrt(end * (1 - end) / n) if 0 < end < 1 else math.inf


@given(proportions)
def test_the_ends_are_where_the_score_is_the_quantile(proportion):
    hits, n = proportion
    low, high = wilson(hits, n)
    within = 1e-4  # ends are rounded to four digits
    if low > 0:
        assert score(hits / n, low - within, n) > Z95 > score(hits / n, low + within, n)
    if high < 1:
        assert score(1 - hits / n, 1 - high - within, n) > Z95
        assert score(1 - hits / n, 1 - high + within, n) < Z95


@given(st.integers(1, 500), st.integers(2, 20))
def test_more_trials_know_more(n, times):
    low, high = wilson(n, 2 * n)
    closer_low, closer_high = wilson(n * times, 2 * n * times)
    assert closer_high - closer_low <= high - low


def test_percentiles_of_nothing():
    assert percentiles([]) is None


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([7], {"n": 1, "median": 7, "max": 7}),
        ([3, 1], {"n": 2, "median": 2, "max": 3}),
        ([9, 1, 2], {"n": 3, "median": 2, "max": 9}),
        ([1, 2, 3, 5], {"n": 4, "median": 2, "max": 5}),
    ],
)
def test_percentiles_of_few(values, found):
    assert percentiles(values) == found


def test_the_95th_percentile_is_given_from_30_values_on():
    assert P95_MIN == 30
    assert "p95" not in percentiles(range(1, 30))
    assert percentiles(range(1, 31))["p95"] == 29
    assert percentiles(range(1, 101))["p95"] == 95
    assert percentiles(range(100, 0, -1))["p95"] == 95


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=200))
def test_percentiles_are_in_order(values):
    found = percentiles(values)
    assert min(values) <= found["median"] <= found.get("p95", found["max"]) <= found["max"]
    if "p95" in found:
        assert found["p95"] in values
        assert sum(value <= found["p95"] for value in values) >= 0.95 * len(values)
