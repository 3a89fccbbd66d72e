"""The twin is its process's twin: the same requests at the same times give the same answers."""

import random

import pytest

from conformance.receivers.calls import ALL, ids, request
from conformance.receivers.fronts import FRONTS
from crashpoint.receivers.person import ScriptedPerson
from crashpoint.receivers.service import fold

STEPS = 60
ERRS = ScriptedPerson(seed=3, wrong_rate=0.3)


def drawn(receiver: str, draw: random.Random) -> dict:
    key = draw.choice([None, "k1", "k2", "k3"])
    if receiver == "tracker":
        changes = [
            request("file", key, title=draw.choice("abc"), body=draw.choice("de")),
            request("comment", key, issue=draw.randint(1, 6), text=draw.choice("abc")),
        ]
        reads = [request("search", text=draw.choice("abcde"))]
    else:
        changes = [
            request("charge", key, order=draw.choice("ab"), cents=draw.choice([100, 200])),
            request("refund", key, charge=draw.randint(1, 6), cents=draw.randint(1, 120)),
        ]
        reads = [request("look_up", order=draw.choice("ab"))]
    about = draw.choice(changes)
    reads.append(request("find", op=about["op"], args=about["args"], age_s=draw.choice([0, 60])))
    reads.append(request("find", key=draw.choice(["k1", "k2"])))
    return draw.choice([*changes, *changes, *reads])


@pytest.mark.parametrize("receiver", ["tracker", "payments"])
@pytest.mark.parametrize("dialect", ALL, ids=ids)
@pytest.mark.parametrize("other", ["http", "line", "mcp"])
def test_twin_and_process_answer_and_record_alike(the_bench, receiver, dialect, other):
    draw = random.Random(f"{receiver} {dialect.name}")
    twin = FRONTS["twin"](the_bench, receiver, dialect, (), ERRS)
    front = FRONTS[other](the_bench, receiver, dialect, (), ERRS)
    try:
        for step in range(STEPS):
            sent = drawn(receiver, draw)
            assert front.send(sent) == twin.send(sent), (step, sent)
            question = request("file", title="a")
            if receiver == "tracker" and draw.random() < 0.2:
                assert front.person.send(question) == twin.person.send(question)
            seconds = draw.choice([0, 0, 1, 50_000])
            front.advance(seconds)
            twin.advance(seconds)
            if step == STEPS // 2:
                front.restart()
        assert front.records() == twin.records()
        assert fold(receiver, front.records()) == twin.twin.state
    finally:
        front.close()
