"""What becomes of a request that is sent again: one answer for each dialect, at every front."""

import threading
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
from crashpoint.receivers.dialect import KEYED, KEYED_CHECKED, KEYED_RETENTION
from crashpoint.receivers.receiver import ReceiverFault

RETENTION = replace(KEYED_RETENTION, retention_s=60.0)
CHECKED_FOR_A_MINUTE = replace(KEYED_CHECKED, retention_s=60.0)

# Keys that something which trims, folds, joins or normalises would take for one another.
ALIKE = (
    "a:b",
    "a:b ",
    "A:b",
    "a",
    "b",
    "ab",
    "3:a:b1:c",
    "1:a3:b:c",
    "a:bc",
    "a:b:c",
    "\0",
    "a\0",
    "a\0b",
    "\u00e4",
    "a\u0308",
    "\uff41",
    "\U0001f9ea",
    "k" * 254,
    "k" * 255,
    "\u20ac" * 255,
)


@pytest.mark.parametrize("receiver", MAKES)
@pytest.mark.parametrize("dialect", ALL, ids=ids)
def test_without_a_key_each_request_acts(receiver_at, receiver, dialect):
    front = receiver_at(receiver, dialect)
    assert [made(front.send(MAKES[receiver])) for _ in range(3)] == [1, 2, 3]
    assert did(front) == ["acted"] * 3


@pytest.mark.parametrize("receiver", MAKES)
@pytest.mark.parametrize("dialect", KEYLESS, ids=ids)
def test_a_key_means_nothing_where_none_are_kept(receiver_at, receiver, dialect):
    front = receiver_at(receiver, dialect)
    first = {**MAKES[receiver], "key": "k"}
    assert [made(front.send(first)) for _ in range(2)] == [1, 2]
    assert did(front) == ["acted"] * 2
    assert [record["key"] for record in front.records()] == ["k", "k"]


@pytest.mark.parametrize("receiver", MAKES)
@pytest.mark.parametrize("dialect", KEEPS_KEYS, ids=ids)
def test_a_known_key_gets_the_first_answer_and_changes_nothing(receiver_at, receiver, dialect):
    front = receiver_at(receiver, dialect)
    first, other = {**MAKES[receiver], "key": "k"}, {**OTHER[receiver], "key": "l"}
    assert [made(front.send(sent)) for sent in (first, other, first)] == [1, 2, 1]
    front.restart()
    assert [made(front.send(sent)) for sent in (other, first)] == [2, 1]
    assert made(front.send(OTHER[receiver])) == 3
    assert did(front) == ["acted", "acted", "repeated", "repeated", "repeated", "acted"]
    assert [record["id"] for record in front.records()] == [1, 2, 1, 2, 1, 3]


@pytest.mark.parametrize("dialect", [KEYED, RETENTION], ids=ids)
def test_an_unchecked_key_gets_the_first_answer_whatever_is_asked(receiver_at, dialect):
    front = receiver_at("tracker", dialect)
    assert front.send(request("file", "k", title="one"))["body"] == {"issue": 1}
    assert front.send(request("file", "k", title="two"))["body"] == {"issue": 1}
    assert front.send(request("comment", "k", issue=1, text="no"))["body"] == {"issue": 1}
    assert front.send(request("search", text="two"))["body"] == {"issues": []}
    assert did(front) == ["acted", "repeated", "repeated"]


@pytest.mark.parametrize("dialect", [RETENTION, CHECKED_FOR_A_MINUTE], ids=ids)
def test_a_key_is_forgotten_when_its_time_is_over(receiver_at, dialect):
    front = receiver_at("payments", dialect)
    first = {**MAKES["payments"], "key": "k"}
    assert made(front.send(first)) == 1
    front.advance(59.5)
    assert made(front.send(first)) == 1
    front.restart()
    assert made(front.send(first)) == 1
    front.advance(0.5)
    assert made(front.send(first)) == 2  # counted from the first, not from the last repeat
    front.advance(59.5)
    assert made(front.send(first)) == 2
    assert did(front) == ["acted", "repeated", "repeated", "acted", "repeated"]


def test_a_key_that_is_kept_for_ever_is_kept(receiver_at):
    front = receiver_at("payments", KEYED)
    first = {**MAKES["payments"], "key": "k"}
    made(front.send(first))
    front.advance(10**9)
    assert made(front.send(first)) == 1


def test_a_checked_key_refuses_another_request(receiver_at):
    front = receiver_at("tracker", KEYED_CHECKED)
    first = request("file", "k", title="one")
    assert made(front.send(first)) == 1
    front.restart()
    assert "another request" in sentence(front.send(request("file", "k", title="two")), 422)
    assert "another request" in sentence(
        front.send(request("comment", "k", issue=1, text="x")), 422
    )
    assert made(front.send(request("file", "k", title="one", body=""))) == 1  # spelt out: the same
    assert made(front.send(first)) == 1
    assert did(front) == ["acted", "refused", "refused", "repeated", "repeated"]


def test_a_checked_key_refuses_while_the_first_is_in_progress(receiver_at):
    front = receiver_at("payments", KEYED_CHECKED, faults=[(ReceiverFault.LATE_ACCEPT, 1)])
    first = {**MAKES["payments"], "key": "k"}
    with pytest.raises(ReceiverTimeout):
        front.send(first)
    assert "in progress" in sentence(front.send(first), 409)
    assert made(front.send({**first, "key": "l"})) == 1
    assert made(front.send(MAKES["payments"])) == 2
    assert front.settle() == 1
    assert made(front.send(first)) == 3
    assert did(front) == ["refused", "acted", "acted", "acted", "repeated"]


@pytest.mark.parametrize("dialect", [KEYED, KEYED_RETENTION], ids=ids)
def test_an_unchecked_key_acts_while_the_first_is_in_progress(receiver_at, dialect):
    front = receiver_at("payments", dialect, faults=[(ReceiverFault.LATE_ACCEPT, 1)])
    first = {**MAKES["payments"], "key": "k"}
    with pytest.raises(ReceiverTimeout):
        front.send(first)
    assert made(front.send(first)) == 1
    assert front.settle() == 1
    assert did(front) == ["acted", "repeated"]


@pytest.mark.parametrize("dialect", KEEPS_KEYS, ids=ids)
def test_keys_that_look_alike_are_different(receiver_at, dialect):
    front = receiver_at("payments", dialect)
    requests = [{**MAKES["payments"], "key": key} for key in ALIKE]
    numbers = list(range(1, len(ALIKE) + 1))
    assert [made(front.send(sent)) for sent in requests] == numbers
    front.restart()
    assert [made(front.send(sent)) for sent in requests] == numbers
    assert [record["key"] for record in front.records()] == [*ALIKE, *ALIKE]


@pytest.mark.parametrize("dialect", KEEPS_KEYS, ids=ids)
def test_of_two_at_once_with_one_key_one_acts(receiver_at, dialect):
    front = receiver_at("payments", dialect)
    together, answers = threading.Barrier(2), []

    def send(transport, key):
        together.wait(30)
        answers.append(transport.send({**MAKES["payments"], "key": key}))

    ways = [front.another(), front.another()]
    rounds = 20
    for n in range(rounds):
        threads = [threading.Thread(target=send, args=(way, f"k{n}")) for way in ways]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(map(made, answers)) == sorted([*range(1, rounds + 1)] * 2)
    assert sorted(did(front)) == ["acted"] * rounds + ["repeated"] * rounds
