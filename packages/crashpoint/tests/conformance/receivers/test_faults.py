"""Faults that befall one request: what was done, what the sender learns, what a restart finds."""

import pytest

from conformance.receivers.calls import MAKES, did, ids, made, request, sentence
from crashpoint.receivers.client import ReceiverDown, ReceiverTimeout
from crashpoint.receivers.dialect import KEYED, NOTHING
from crashpoint.receivers.receiver import ReceiverFault


@pytest.mark.parametrize("receiver", MAKES)
def test_an_error_is_answered_and_nothing_is_done(receiver_at, receiver):
    front = receiver_at(receiver, KEYED, faults=[(ReceiverFault.ERROR, 2)])
    keyed = {**MAKES[receiver], "key": "k"}
    made(front.send(MAKES[receiver]))
    sentence(front.send(keyed), 500)
    assert made(front.send(keyed)) == 2
    assert did(front) == ["acted", "refused", "acted"]


@pytest.mark.parametrize("dialect", [KEYED, NOTHING], ids=ids)
def test_a_lost_reply_was_done(receiver_at, dialect):
    front = receiver_at("tracker", dialect, faults=[(ReceiverFault.LOST_REPLY, 1)])
    keyed = {**MAKES["tracker"], "key": "k"}
    with pytest.raises(ReceiverTimeout):
        front.send(keyed)
    assert made(front.send(keyed)) == (1 if dialect is KEYED else 2)
    assert did(front) == ["acted", "repeated" if dialect is KEYED else "acted"]


def test_a_repeat_can_lose_its_reply_too(receiver_at):
    front = receiver_at("tracker", KEYED, faults=[(ReceiverFault.LOST_REPLY, 2)])
    keyed = {**MAKES["tracker"], "key": "k"}
    made(front.send(keyed))
    with pytest.raises(ReceiverTimeout):
        front.send(keyed)
    assert made(front.send(keyed)) == 1
    assert did(front) == ["acted", "repeated", "repeated"]


@pytest.mark.parametrize("dialect", [KEYED, NOTHING], ids=ids)
def test_a_late_request_is_done_when_it_settles(receiver_at, dialect):
    front = receiver_at("tracker", dialect, faults=[(ReceiverFault.LATE_ACCEPT, 1)])
    keyed = {**MAKES["tracker"], "key": "k"}
    with pytest.raises(ReceiverTimeout):
        front.send(keyed)
    assert did(front) == []
    assert made(front.send(keyed)) == 1
    assert front.settle() == 1
    assert front.settle() == 0
    assert did(front) == ["acted", "repeated" if dialect is KEYED else "acted"]


def test_late_requests_settle_in_the_order_they_were_sent(receiver_at):
    faults = [(ReceiverFault.LATE_ACCEPT, 1), (ReceiverFault.LATE_ACCEPT, 2)]
    front = receiver_at("tracker", NOTHING, faults=faults)
    for title in ("one", "two"):
        with pytest.raises(ReceiverTimeout):
            front.send(request("file", title=title))
    assert front.settle() == 2
    assert [record["args"]["title"] for record in front.records()] == ["one", "two"]


def test_a_late_request_dies_with_the_receiver(receiver_at):
    front = receiver_at("tracker", NOTHING, faults=[(ReceiverFault.LATE_ACCEPT, 1)])
    with pytest.raises(ReceiverTimeout):
        front.send(MAKES["tracker"])
    front.restart()
    assert front.settle() == 0
    assert did(front) == []


@pytest.mark.parametrize("receiver", MAKES)
def test_a_receiver_that_crashes_has_done_it_and_knows_after_a_restart(receiver_at, receiver):
    front = receiver_at(receiver, KEYED, faults=[(ReceiverFault.RECEIVER_CRASH, 2)])
    keyed = {**MAKES[receiver], "key": "k"}
    made(front.send(MAKES[receiver]))
    with pytest.raises(ReceiverTimeout):
        front.send(keyed)
    front.wait_for_crash()
    with pytest.raises(ReceiverDown):
        front.send(keyed)
    with pytest.raises(ReceiverDown):
        front.person.send(MAKES[receiver])
    assert did(front) == ["acted", "acted"]
    front.restart()
    assert made(front.send(keyed)) == 2
    assert did(front) == ["acted", "acted", "repeated"]


def test_faults_count_changes_not_reads_nor_malformed_requests(receiver_at):
    front = receiver_at("tracker", KEYED, faults=[(ReceiverFault.ERROR, 1)])
    assert front.send(request("search", text="a"))["status"] == 200
    sentence(front.send(request("file", title="")), 400)
    sentence(front.send(request("file", title="a")), 500)
