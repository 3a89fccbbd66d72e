"""The twin as a sweep uses it: worlds kept and put back, a person, a crash."""

import pytest

from crashpoint.pipeline.crash import Basis
from crashpoint.receivers.client import Person, ReceiverDown, ReceiverTimeout, Tracker
from crashpoint.receivers.dialect import KEYED, LOOKUP
from crashpoint.receivers.receiver import ReceiverFault
from crashpoint.receivers.twin import TwinTransport


def test_it_is_labelled_as_what_it_is():
    assert TwinTransport.basis is Basis.MODELLED


def test_a_world_kept_is_a_world_that_can_be_put_back():
    twin = TwinTransport("tracker")
    tracker = Tracker(twin)
    tracker.file("a", key="k")
    kept = twin.state, twin.late
    tracker.file("b")
    tracker.comment(1, "c")
    after = twin.state
    for _ in range(3):
        twin.state, twin.late = kept
        assert tracker.file("a", key="k") == 1
        assert tracker.file("z") == 2
        assert tracker.search("b") == []
    assert [record["args"].get("title") for record in after.crossings()] == ["a", "b", None]
    twin.state = after
    assert tracker.search("b") == [2]


def test_what_waits_to_be_accepted_is_part_of_the_world():
    twin = TwinTransport("tracker")
    twin.inject(ReceiverFault.LATE_ACCEPT, 1)
    with pytest.raises(ReceiverTimeout):
        Tracker(twin).file("a")
    kept = twin.state, twin.late
    assert twin.settle() == 1
    assert twin.state.acted == 1
    twin.state, twin.late = kept
    assert twin.state.acted == 0
    assert twin.settle() == 1
    assert twin.state.acted == 1


def test_the_clock_is_the_callers():
    now = [100.0]
    twin = TwinTransport("tracker", LOOKUP, now_s=lambda: now[0])
    tracker = Tracker(twin)
    tracker.file("a")
    assert tracker.search("a") == []
    now[0] += LOOKUP.visible_within_s
    assert tracker.search("a") == [1]


def test_a_crashed_receiver_is_down_until_it_is_restarted():
    twin = TwinTransport("tracker", KEYED)
    tracker, person = Tracker(twin), Person(twin.person)
    twin.inject(ReceiverFault.RECEIVER_CRASH)
    with pytest.raises(ReceiverTimeout):
        tracker.file("a", key="k")
    with pytest.raises(ReceiverDown):
        tracker.search("a")
    with pytest.raises(ReceiverDown):
        person.ask("file", {"title": "a"})
    twin.restart()
    assert person.ask("file", {"title": "a"}) is True
    assert tracker.file("a", key="k") == 1
    assert twin.state.asked == 1
