from itertools import permutations

import pytest

from crashpoint.model import Barrier, FaultKind, Outcome, worst


def test_the_printed_words():
    assert [*map(str, Outcome)] == ["EXACTLY_ONCE", "DUPLICATED", "DIVERGED", "LOST", "VOID"]
    assert [*map(str, Barrier)] == ["b0", "b1", "b2"]
    assert [*map(str, FaultKind)] == ["kill", "freeze"]


WORST_FIRST = ["VOID", "DIVERGED", "DUPLICATED", "LOST", "EXACTLY_ONCE"]


@pytest.mark.parametrize("place", range(len(WORST_FIRST)))
def test_worst_is_the_first_in_the_order_however_they_arrive(place):
    among = [Outcome(word) for word in WORST_FIRST[place:]]
    for arrival in permutations(among):
        assert worst(arrival) is Outcome(WORST_FIRST[place])


def test_worst_of_one_is_itself_and_of_none_is_void():
    for outcome in Outcome:
        assert worst([outcome, outcome]) is outcome
    assert worst(iter(())) is Outcome.VOID
