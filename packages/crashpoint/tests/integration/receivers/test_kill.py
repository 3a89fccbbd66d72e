"""A receiver killed at any moment: what it answered is kept, and its successor knows the keys."""

import json
import os
import random
import signal
import threading

import pytest

from conformance.receivers.calls import MAKES, made, request
from crashpoint.receivers.client import HttpTransport, ReceiverDown, ReceiverError, ReceiverTimeout
from crashpoint.receivers.service import fold
from integration.receivers.peek import Sockets, wait_until_readable
from integration.receivers.relay import Relay

KEYED_CHARGE = {**MAKES["payments"], "key": "k"}


@pytest.fixture
def relay(the_bench):
    made_relay = Relay(
        the_bench.folder(f"relay-{random.randbytes(4).hex()}") / "s",
        the_bench.ledger.witness_socket,
    )
    yield made_relay
    made_relay.close()


def send_beside(host, sent):
    """Send a request in a thread; returns the thread and the list its outcome will be in."""
    outcome = []

    def send():
        try:
            outcome.append(HttpTransport(host.url).send(sent))
        except ReceiverError as error:
            outcome.append(error)

    thread = threading.Thread(target=send)
    thread.start()
    return thread, outcome


@pytest.mark.parametrize(
    ("where", "happened", "then"), [("before", 0, "acted"), ("after", 1, "repeated")]
)
def test_killed_around_the_append(the_bench, relay, where, happened, then):
    trial = the_bench.trial()
    with the_bench.host("payments", trial, witness=relay.path) as host:
        assert made(HttpTransport(host.url).send(MAKES["payments"])) == 1
        relay.hold(where)
        thread, outcome = send_beside(host, KEYED_CHARGE)
        relay.wait_until_held()
        host.kill()
        relay.let_go(drop=True)
        thread.join()
        assert isinstance(outcome[0], ReceiverTimeout)
        assert len(the_bench.records(trial)) == 1 + happened
        host.restart()
        assert made(HttpTransport(host.url).send(KEYED_CHARGE)) == 2
    records = the_bench.records(trial)
    assert [record["did"] for record in records] == ["acted"] * (1 + happened) + [then]


def test_nothing_is_answered_before_it_is_kept(the_bench, relay):
    trial = the_bench.trial()
    with the_bench.host("payments", trial, witness=relay.path) as host:
        relay.hold("after")
        thread, outcome = send_beside(host, KEYED_CHARGE)
        relay.wait_until_held()
        assert outcome == []
        assert len(the_bench.records(trial)) == 1
        relay.let_go(drop=False)
        thread.join()
        assert made(outcome[0]) == 1


@pytest.mark.parametrize("size", ["small", "largest"])
def test_a_line_left_behind_is_read_before_the_successor_reads(the_bench, size):
    """The ledger stands still; before it wait a dead receiver's append and a living one's read."""
    trial, ledger = the_bench.trial(), the_bench.ledger
    body = "\0" * 8192 if size == "largest" else "b"
    sent = request("file", "\0" * 255, title="\0" * 255, body=body)
    host = the_bench.host("tracker", trial)
    host.start()
    with Sockets(ledger.pid) as sockets:
        os.kill(ledger.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, ledger.pid, os.WSTOPPED | os.WNOWAIT)
        try:
            thread, outcome = send_beside(host, sent)
            wait_until_readable(sockets.from_peer(host.pid), len(json.dumps(sent)))
            host.kill()
            thread.join()
            assert isinstance(outcome[0], ReceiverTimeout)
            successor = threading.Thread(target=host.start)
            successor.start()
            wait_until_readable(sockets.listener(str(ledger.witness_socket)))
        finally:
            os.kill(ledger.pid, signal.SIGCONT)
    successor.join()
    assert made(HttpTransport(host.url).send(sent)) == 1
    host.stop()
    assert [record["did"] for record in the_bench.records(trial)] == ["acted", "repeated"]


@pytest.mark.parametrize("seed", range(3))
def test_killed_at_drawn_moments_each_keyed_request_acts_once(the_bench, seed):
    draw = random.Random(seed)
    trial = the_bench.trial()
    requests = [{**MAKES["payments"], "key": f"k{n}"} for n in range(120)]
    answers, up, busy = {}, threading.Event(), threading.Semaphore(0)

    with the_bench.host("payments", trial) as host:

        def send_all():
            transport = HttpTransport(host.url)
            for sent in requests:
                while sent["key"] not in answers:
                    assert up.wait(30)
                    busy.release()
                    try:
                        answers[sent["key"]] = made(transport.send(sent))
                    except ReceiverTimeout:
                        pass
                    except ReceiverDown:
                        up.wait(0.001)

        up.set()
        sender = threading.Thread(target=send_all)
        sender.start()
        for _ in range(6):
            for _ in range(draw.randint(1, 18)):
                busy.acquire(timeout=5)
            up.clear()
            host.kill()
            host.start()
            up.set()
        sender.join(60)
        assert not sender.is_alive()
    records = the_bench.records(trial)
    acted = {record["key"]: record["id"] for record in records if record["did"] == "acted"}
    assert len(acted) == sum(record["did"] == "acted" for record in records) == len(requests)
    assert answers == acted
    assert sorted(acted.values()) == list(range(1, len(requests) + 1))
    assert fold("payments", records).records == records
