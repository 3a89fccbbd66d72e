"""The scripted person, alone: what is true, when an answer is wrong, what is recorded."""

import pytest

from crashpoint.receivers import person
from crashpoint.receivers.dialect import KEYED
from crashpoint.receivers.person import ScriptedPerson
from crashpoint.receivers.service import State, fold, handle
from unit.receivers.scripts import request

FILE = request("file", title="a")
AS_RECORDED = {"op": "file", "args": {"title": "a", "body": ""}}


def filed(*titles: str) -> State:
    state = State.empty("tracker")
    for title in titles:
        state = handle(state, request("file", title=title), KEYED, 0.0).state
    return state


def stands(module=person) -> bool:
    """Whether a module's person answers as it should."""
    honest = module.ScriptedPerson()
    told = [
        honest.ask(filed(), FILE, 1.0),
        honest.ask(filed("a"), FILE, 1.0),
        honest.ask(filed("a"), AS_RECORDED, 1.0),
        honest.ask(filed("b", "a", "c"), FILE, 1.0),
        honest.ask(filed("b"), FILE, 1.0),
    ]
    if [each.reply["body"]["happened"] for each in told] != [False, True, True, True, False]:
        return False
    comment = request("comment", issue=1, text="a")
    refused = handle(filed(), comment, KEYED, 0.0).state
    if honest.ask(refused, comment, 1.0).reply["body"] != {"happened": False}:
        return False
    state, reply, record = honest.ask(told[0].state, FILE, 2.5)
    expected = {
        "receiver": "tracker",
        "op": "ask",
        "args": AS_RECORDED,
        "key": None,
        "did": "asked",
        "id": 2,
        "at_s": 2.5,
        "said": False,
    }
    if record != expected or (state.asked, state.acted, reply["status"]) != (2, 0, 200):
        return False
    bad = honest.ask(state, request("search", text="a"), 1.0)
    if bad.record is not None or bad.reply["status"] != 400 or bad.state is not state:
        return False
    wavering = module.ScriptedPerson(seed=1, wrong_rate=0.5)
    if {True, False} != set(answers(wavering, 20)):
        return False
    liar = module.ScriptedPerson(wrong_rate=1)
    if [liar.ask(filed(*t), FILE, 0).reply["body"]["happened"] for t in ((), ("a",))] != [
        True,
        False,
    ]:
        return False
    try:
        module.ScriptedPerson(wrong_rate=1.5)
    except ValueError:
        return honest == module.TRUTHFUL
    return False


def test_the_person_stands():
    assert stands()


def answers(of: ScriptedPerson, number: int) -> list[bool]:
    state, said = filed("a"), []
    for _ in range(number):
        state, reply, _ = of.ask(state, FILE, 0.0)
        said.append(reply["body"]["happened"])
        state = fold("tracker", state.records)
    return said


def test_errors_are_drawn_from_the_seed():
    first = answers(ScriptedPerson(seed=1, wrong_rate=0.25), 400)
    assert first == answers(ScriptedPerson(seed=1, wrong_rate=0.25), 400)
    assert first != answers(ScriptedPerson(seed=2, wrong_rate=0.25), 400)
    assert 60 < first.count(False) < 140


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan")])
def test_a_rate_is_a_share(rate):
    with pytest.raises(ValueError, match="wrong_rate must be from 0 to 1"):
        ScriptedPerson(wrong_rate=rate)
