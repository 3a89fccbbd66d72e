"""The scripted person: sees the truth, tells it unless made to err; questions are recorded."""

from dataclasses import replace

import pytest

from conformance.receivers.calls import MAKES, OTHER, did, ids, made, request, sentence
from crashpoint.receivers.client import Person
from crashpoint.receivers.dialect import KEYED, LOOKUP, NOTHING
from crashpoint.receivers.person import ScriptedPerson

HALF = ScriptedPerson(seed=7, wrong_rate=0.5)


def ask(front, sent):
    return Person(front.person).ask(sent["op"], sent["args"])


@pytest.mark.parametrize("receiver", MAKES)
@pytest.mark.parametrize(
    "dialect", [KEYED, NOTHING, replace(LOOKUP, visible_within_s=60.0)], ids=ids
)
def test_the_person_knows_what_was_done(receiver_at, receiver, dialect):
    front = receiver_at(receiver, dialect)
    assert ask(front, MAKES[receiver]) is False
    made(front.send(MAKES[receiver]))
    assert ask(front, MAKES[receiver]) is True
    assert ask(front, OTHER[receiver]) is False


def test_a_refused_request_was_not_done(receiver_at):
    front = receiver_at("tracker", KEYED)
    comment = request("comment", issue=1, text="a")
    sentence(front.send(comment), 404)
    assert ask(front, comment) is False


def test_questions_are_counted_and_recorded(receiver_at):
    front = receiver_at("tracker", KEYED)
    ask(front, MAKES["tracker"])
    front.restart()
    made(front.send(MAKES["tracker"]))
    ask(front, {"op": "file", "args": {"title": "login fails", "body": "on a space"}})
    assert did(front) == ["asked", "acted", "asked"]
    asked = front.records()[2]
    assert asked.pop("at_s") == pytest.approx(1_000_000)
    assert asked == {
        "receiver": "tracker",
        "op": "ask",
        "args": MAKES["tracker"],
        "key": None,
        "did": "asked",
        "id": 2,
        "said": True,
    }


def test_a_person_who_always_errs(receiver_at):
    front = receiver_at("tracker", KEYED, person=ScriptedPerson(wrong_rate=1.0))
    assert ask(front, MAKES["tracker"]) is True
    made(front.send(MAKES["tracker"]))
    assert ask(front, MAKES["tracker"]) is False


def test_errors_depend_on_the_seed_and_the_number_of_the_question_alone(receiver_at):
    one, other = (receiver_at("tracker", KEYED, person=HALF) for _ in range(2))
    first = [ask(one, MAKES["tracker"]) for _ in range(20)]
    second = [ask(other, MAKES["tracker"]) for _ in range(10)]
    other.restart()
    second += [ask(other, MAKES["tracker"]) for _ in range(10)]
    assert first == second
    assert {True, False} == set(first)


@pytest.mark.parametrize(
    "question",
    [
        request("search", text="a"),
        request("find", key="k"),
        request("file", title=""),
        request("charge", order="o", cents=1),
    ],
    ids=str,
)
def test_a_question_about_nothing_is_refused(receiver_at, question):
    front = receiver_at("tracker", KEYED)
    sentence(front.person.send(question), 400)
    assert did(front) == []
