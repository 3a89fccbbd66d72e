"""What a look-up shows, when, and when its answer cannot change any more."""

from dataclasses import replace

import pytest

from conformance.receivers.calls import (
    ALL,
    KEEPS_KEYS,
    KEYLESS,
    MAKES,
    OTHER,
    did,
    ids,
    made,
    request,
    sentence,
)
from crashpoint.receivers.client import ReceiverTimeout
from crashpoint.receivers.dialect import KEYED, KEYED_RETENTION, LOOKUP, NOTHING
from crashpoint.receivers.receiver import ReceiverFault

LATE = replace(LOOKUP, visible_within_s=60.0)
OFFERS_LOOKUP = [dialect for dialect in ALL if dialect.lookup]


def find(front, receiver, **more):
    reply = front.send(request("find", **MAKES[receiver], **more))
    assert reply["status"] == 200, reply
    return reply["body"]


@pytest.mark.parametrize("receiver", MAKES)
def test_what_is_accepted_shows_after_the_declared_time(receiver_at, receiver):
    front = receiver_at(receiver, LATE)
    made(front.send(MAKES[receiver]))
    assert find(front, receiver) == {"found": False, "final": False, "ids": []}
    front.advance(59.5)
    front.restart()
    assert find(front, receiver, age_s=59.5) == {"found": False, "final": False, "ids": []}
    front.advance(0.5)
    assert find(front, receiver, age_s=60) == {"found": True, "final": True, "ids": [1]}
    assert find(front, receiver) == {"found": True, "final": True, "ids": [1]}


@pytest.mark.parametrize("receiver", MAKES)
def test_absence_looks_the_same_whether_it_is_hidden_or_true(receiver_at, receiver):
    front, empty = receiver_at(receiver, LATE), receiver_at(receiver, LATE)
    made(front.send(MAKES[receiver]))
    assert find(front, receiver) == find(empty, receiver)
    assert find(empty, receiver, age_s=59.9) == {"found": False, "final": False, "ids": []}
    assert find(empty, receiver, age_s=60.0) == {"found": False, "final": True, "ids": []}


@pytest.mark.parametrize("receiver", MAKES)
@pytest.mark.parametrize("dialect", KEEPS_KEYS, ids=ids)
def test_without_a_delay_absence_is_final_at_once(receiver_at, receiver, dialect):
    front = receiver_at(receiver, dialect)
    assert find(front, receiver) == {"found": False, "final": True, "ids": []}
    made(front.send(OTHER[receiver]))
    assert find(front, receiver)["found"] is False
    made(front.send(MAKES[receiver]))
    assert find(front, receiver) == {"found": True, "final": True, "ids": [2]}


def test_all_that_match_are_found_and_only_they(receiver_at):
    front = receiver_at("tracker", replace(LOOKUP, visible_within_s=0))
    for title in ("a", "b", "a"):
        made(front.send(request("file", title=title)))
    made(front.send(request("comment", issue=1, text="a")))
    found = front.send(request("find", op="file", args={"title": "a"}))["body"]
    assert found == {"found": True, "final": True, "ids": [1, 3]}
    found = front.send(request("find", op="comment", args={"issue": 1, "text": "a"}))["body"]
    assert found == {"found": True, "final": True, "ids": [4]}


@pytest.mark.parametrize("dialect", KEEPS_KEYS, ids=ids)
def test_a_request_is_found_by_its_key(receiver_at, dialect):
    front = receiver_at("payments", dialect)
    made(front.send(MAKES["payments"]))
    made(front.send({**MAKES["payments"], "key": "k"}))
    front.send({**MAKES["payments"], "key": "k"})
    front.restart()
    found = front.send(request("find", key="k"))["body"]
    assert found == {"found": True, "final": True, "ids": [2]}
    assert front.send(request("find", key="l"))["body"] == {
        "found": False,
        "final": True,
        "ids": [],
    }


def test_absence_of_a_forgotten_key_is_not_final(receiver_at):
    front = receiver_at("payments", replace(KEYED_RETENTION, retention_s=60.0))
    made(front.send({**MAKES["payments"], "key": "k"}))
    front.advance(60)
    assert front.send(request("find", key="k", age_s=60))["body"] == {
        "found": False,
        "final": False,
        "ids": [],
    }
    assert front.send(request("find", key="l", age_s=59))["body"]["final"] is True


def test_a_key_shows_as_late_as_everything(receiver_at):
    front = receiver_at("payments", replace(KEYED, visible_within_s=60.0))
    made(front.send({**MAKES["payments"], "key": "k"}))
    late = front.send(request("find", key="k"))["body"]
    assert late == {"found": False, "final": False, "ids": []}
    front.advance(60)
    assert front.send(request("find", key="k"))["body"]["ids"] == [1]


@pytest.mark.parametrize("dialect", KEYLESS, ids=ids)
def test_keyless_receivers_find_nothing_by_key(receiver_at, dialect):
    front = receiver_at("tracker", dialect)
    sentence(front.send(request("find", key="k")), 400 if dialect.lookup else 404)


def test_a_receiver_that_offers_nothing_refuses_to_look_up(receiver_at):
    tracker, payments = receiver_at("tracker", NOTHING), receiver_at("payments", NOTHING)
    made(tracker.send(MAKES["tracker"]))
    assert "no look-up" in sentence(tracker.send(request("find", **MAKES["tracker"])), 404)
    assert "no look-up" in sentence(payments.send(request("look_up", order="o-1")), 404)
    assert tracker.send(request("search", text="login"))["body"] == {"issues": [1]}


def test_search_shows_titles_and_bodies_late(receiver_at):
    front = receiver_at("tracker", LATE)
    made(front.send(request("file", title="login fails", body="on a space")))
    made(front.send(request("file", title="export", body="login too")))
    made(front.send(request("file", title="unrelated")))
    made(front.send(request("comment", issue=3, text="login")))
    assert front.send(request("search", text="login"))["body"] == {"issues": []}
    front.advance(60)
    assert front.send(request("search", text="login"))["body"] == {"issues": [1, 2]}
    assert front.send(request("search", text="LOGIN"))["body"] == {"issues": []}


def test_look_up_shows_charges_and_what_was_refunded(receiver_at):
    front = receiver_at("payments", LATE)
    first = made(front.send(request("charge", order="o-1", cents=500)))
    made(front.send(request("charge", order="o-2", cents=100, currency="USD")))
    made(front.send(request("refund", charge=first, cents=200)))
    made(front.send(request("refund", charge=first, cents=300)))
    assert front.send(request("look_up", order="o-1"))["body"] == {"charges": []}
    front.advance(60)
    charge = {"charge": first, "cents": 500, "currency": "EUR", "refunded": 500}
    assert front.send(request("look_up", order="o-1"))["body"] == {"charges": [charge]}
    assert front.send(request("look_up", order="o-3"))["body"] == {"charges": []}


@pytest.mark.parametrize("dialect", OFFERS_LOOKUP, ids=ids)
def test_a_request_still_on_its_way_is_seen_by_nobody(receiver_at, dialect):
    front = receiver_at("tracker", dialect, faults=[(ReceiverFault.LATE_ACCEPT, 1)])
    with pytest.raises(ReceiverTimeout):
        front.send(MAKES["tracker"])
    front.advance(60)
    assert find(front, "tracker", age_s=60) == {"found": False, "final": True, "ids": []}
    front.settle()
    front.advance(60)
    assert find(front, "tracker")["ids"] == [1]


@pytest.mark.parametrize(
    "args",
    [
        {},
        {"op": "file"},
        {"args": {"title": "a"}},
        {"op": "file", "args": {"title": "a"}, "key": "k"},
        {"op": "search", "args": {"text": "a"}},
        {"op": "charge", "args": {"order": "o", "cents": 1}},
        {"op": "file", "args": {}},
        {"key": ""},
        {"key": "k", "age_s": -1},
        {"key": "k", "age_s": True},
        {"key": "k", "since": 1},
    ],
    ids=str,
)
def test_a_look_up_that_asks_nothing_clear_is_refused(receiver_at, args):
    sentence(receiver_at("tracker", KEYED).send(request("find", **args)), 400)


@pytest.mark.parametrize("receiver", MAKES)
def test_reads_leave_no_record(receiver_at, receiver):
    front = receiver_at(receiver, KEYED)
    made(front.send(MAKES[receiver]))
    reads = {"tracker": request("search", text="a"), "payments": request("look_up", order="o-1")}
    assert front.send(reads[receiver])["status"] == 200
    find(front, receiver)
    assert did(front) == ["acted"]
