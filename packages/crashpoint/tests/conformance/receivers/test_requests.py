"""What a receiver takes and what it refuses: each refusal one sentence, and nothing done."""

import pytest

from conformance.receivers.calls import MAKES, did, made, request, sentence
from crashpoint.receivers.dialect import KEYED, NOTHING

BAD = {
    "tracker": [
        request("delete", issue=1),
        request("charge", order="o", cents=1),
        request("file"),
        request("file", title=""),
        request("file", title="t" * 256),
        request("file", title=7),
        request("file", title=None),
        request("file", title=["a"]),
        request("file", title="a", body="b" * 8193),
        request("file", title="a", body=None),
        request("file", title="a", priority="high"),
        request("file", "", title="a"),
        request("file", "k" * 256, title="a"),
        request("file", 7, title="a"),
        request("comment", issue="1", text="a"),
        request("comment", issue=True, text="a"),
        request("comment", issue=1.0, text="a"),
        request("comment", issue=0, text="a"),
        request("comment", issue=10**15 + 1, text="a"),
        request("search", text=""),
        request("search", text="a", limit=3),
        request("", title="a"),
        request("o" * 10_000),
    ],
    "payments": [
        request("charge", order="o"),
        request("charge", order="o", cents=0),
        request("charge", order="o", cents=-5),
        request("charge", order="o", cents=1.5),
        request("charge", order="o", cents="5"),
        request("charge", order="o", cents=5, currency="eur"),
        request("charge", order="o", cents=5, currency="EURO"),
        request("charge", order="o", cents=5, currency="\u00c4\u00d6\u00dc"),
        request("refund", charge=1),
        request("look_up"),
        request("file", title="a"),
    ],
}


@pytest.mark.parametrize("receiver", BAD)
def test_a_malformed_request_is_refused_in_one_sentence(receiver_at, receiver):
    front = receiver_at(receiver, KEYED)
    for bad in BAD[receiver]:
        assert len(sentence(front.send(bad), 400)) < 300, bad
    assert did(front) == []
    assert made(front.send(MAKES[receiver])) == 1


def test_a_refusal_names_what_is_wrong_and_what_to_send(receiver_at):
    front = receiver_at("payments", KEYED)
    assert sentence(front.send(request("charge", order="o", cents="5")), 400) == (
        "charge: cents must be a whole number from 1 to 1000000000000000, not '5'"
    )
    assert "charge: cents is missing" in sentence(front.send(request("charge", order="o")), 400)
    assert "it takes order" in sentence(front.send(request("look_up", order="o", n=1)), 400)
    assert "look_up" in sentence(front.send(request("pay")), 400)


def test_left_out_arguments_are_recorded_as_what_they_stand_for(receiver_at):
    tracker, payments = receiver_at("tracker", NOTHING), receiver_at("payments", NOTHING)
    made(tracker.send(request("file", title="a")))
    made(payments.send(request("charge", order="o", cents=5)))
    assert tracker.records()[0]["args"] == {"title": "a", "body": ""}
    assert payments.records()[0]["args"] == {"order": "o", "cents": 5, "currency": "EUR"}


def test_a_record_says_who_did_what_and_when(receiver_at):
    front = receiver_at("payments", KEYED)
    made(front.send({**MAKES["payments"], "key": "k"}))
    (record,) = front.records()
    assert record.pop("at_s") == pytest.approx(1_000_000)
    assert record == {
        "receiver": "payments",
        "op": "charge",
        "args": MAKES["payments"]["args"],
        "key": "k",
        "did": "acted",
        "id": 1,
    }


@pytest.mark.parametrize(
    "text",
    ["\0", "a\0b", "\u00e4", "a\u0308", "\U0001f9ea\U0001f600", "\r\n\t\x7f\u2028", "\ufeff"],
)
def test_any_text_arrives_as_it_was_sent(receiver_at, text):
    front = receiver_at("tracker", KEYED)
    made(front.send(request("file", f"key {text}", title=f"title {text}", body=text)))
    front.restart()
    assert front.records()[0]["args"] == {"title": f"title {text}", "body": text}
    assert front.send(request("search", text=text))["body"] == {"issues": [1]}
    assert made(front.send(request("file", f"key {text}", title="x"))) == 1


@pytest.mark.parametrize("character", ["\0", "a", "\u20ac", "\U0001f9ea", "\\", '"'])
def test_the_largest_request_is_taken(receiver_at, character):
    front = receiver_at("tracker", KEYED)
    largest = request("file", character * 255, title=character * 255, body=character * 8192)
    assert made(front.send(largest)) == 1
    front.restart()
    assert made(front.send(largest)) == 1
    assert did(front) == ["acted", "repeated"]


def test_a_comment_needs_its_issue(receiver_at):
    front = receiver_at("tracker", KEYED)
    assert "no issue 1" in sentence(front.send(request("comment", "k", issue=1, text="a")), 404)
    assert made(front.send(request("file", title="a"))) == 1
    assert made(front.send(request("comment", "k", issue=1, text="a"))) == 2
    assert "no issue 2" in sentence(front.send(request("comment", issue=2, text="a")), 404)
    assert did(front) == ["refused", "acted", "acted", "refused"]
    assert front.records()[0]["id"] is None


def test_no_more_is_refunded_than_was_charged(receiver_at):
    front = receiver_at("payments", KEYED)
    assert "no charge 1" in sentence(front.send(request("refund", charge=1, cents=1)), 404)
    made(front.send(request("charge", order="o", cents=100)))
    made(front.send(request("charge", order="o", cents=900)))
    assert made(front.send(request("refund", "k", charge=1, cents=60))) == 3
    front.restart()
    refused = sentence(front.send(request("refund", charge=1, cents=41)), 409)
    assert refused == "refund: 41 cents are more than the 40 left of charge 1"
    assert made(front.send(request("refund", "k", charge=1, cents=60))) == 3
    assert made(front.send(request("refund", charge=1, cents=40))) == 4
    assert "the 0 left" in sentence(front.send(request("refund", charge=1, cents=1)), 409)
    assert "no charge 3" in sentence(front.send(request("refund", charge=3, cents=1)), 404)
    assert made(front.send(request("refund", charge=2, cents=900))) == 5
