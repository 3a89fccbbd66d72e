"""What is refused, what a request id promises, and that a reply tells nothing."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crashpoint.canonical import parse
from crashpoint.ledger import desk as desk_module
from crashpoint.ledger.chain import fault_in, trial_key
from crashpoint.ledger.desk import TEXT_MAX, Desk, Peer, Refused
from unit.ledger.chains import (
    KEY,
    RUN_KEY,
    TOKEN,
    TRIAL,
    WITNESS,
    admin,
    open_desk,
    peer,
    request,
    seal,
)


def refused(line: bytes) -> str:
    """The reason for which a line is refused; it leaves no trace."""
    desk = open_desk()
    desk.drain()
    with pytest.raises(Refused) as refusal:
        desk.invoke(peer(), line)
    assert desk.drain() == []
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


def invoke(**members: object) -> bytes:
    whole = {"trial": TOKEN, "id": "i", "effect": "charge", "key": None, "action": 1}
    return json.dumps({**whole, **members}).encode()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "not JSON"),
        (b"garbage", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"{}{}", "not JSON"),
        (b"[]", "one JSON object"),
        (b"null", "one JSON object"),
        (b"1", "one JSON object"),
        (b'"x"', "one JSON object"),
        (invoke(kind="seal"), "unknown member 'kind'; known are action, effect, id, key, trial"),
        (invoke(prev="0", hash="0"), "unknown member 'hash'"),
        (invoke(**{"x" * 500: 1}), f"unknown member {'x' * 80!r};"),
        (invoke(action=float("nan")), "NaN is not JSON"),
        (invoke(action=float("inf")), "Infinity is not JSON"),
        (invoke().replace(b'"action": 1', b'"action": 1e999'), "beyond a 64-bit float"),
        (invoke().replace(b"{", b'{"id": "j", ', 1), "key 'id' stands twice"),
        (invoke(action="\ud800"), "surrogates not allowed"),
        (invoke(effect="\udfff"), "surrogates not allowed"),
        (invoke(id="\ud800"), "surrogates not allowed"),
        (invoke(key="\ud800"), "surrogates not allowed"),
        (b'{"trial": ' + b"[" * 10_000, "nested deeper than 64"),
        (b'{"action": ' + b"[" * 64 + b"]" * 64 + b"}", "nested deeper than 64"),
        (invoke(trial="other"), "no open trial"),
        (invoke(trial=WITNESS), "no open trial"),
        (invoke(trial=TRIAL), "no open trial"),
        (invoke(trial=None), "no open trial"),
        (invoke(trial=[TOKEN]), "no open trial"),
        (invoke(trial={}), "no open trial"),
        (b"{}", "no open trial"),
        (invoke(id=""), "id must be a string of 1 to 4096 characters"),
        (invoke(id=7), "id must be"),
        (invoke(id=None), "id must be"),
        (invoke(id="x" * (TEXT_MAX + 1)), "id must be"),
        (invoke(effect=""), "effect must be"),
        (invoke(effect=["charge"]), "effect must be"),
        (invoke(effect="x" * (TEXT_MAX + 1)), "effect must be"),
        (invoke(key=""), "key must be"),
        (invoke(key=False), "key must be"),
        (invoke(key=0), "key must be"),
        (invoke(key="x" * (TEXT_MAX + 1)), "key must be"),
    ],
)
def test_what_is_refused_leaves_no_trace_and_says_why(line, reason):
    assert reason in refused(line)


@pytest.mark.parametrize("name", ["id", "effect"])
def test_what_is_missing_is_refused(name):
    message = json.loads(invoke())
    del message[name]
    assert f"{name} must be" in refused(json.dumps(message).encode())


@pytest.mark.parametrize(
    "members",
    [
        {"id": "x" * TEXT_MAX, "effect": "x" * TEXT_MAX, "key": "x" * TEXT_MAX},
        {"id": "\0\n\r", "effect": "\n", "key": "\u2028"},
        {"action": None},
        {"action": {"trial": "x", "hash": "y", "prev": "z", "kind": "seal", "n": 0}},
        {"action": 'x\n{"kind":"seal"}\n'},
        {"action": json.loads("[" * 63 + "]" * 63)},
        {"action": [10**4000]},
        {"action": "é\U0001f600"},
    ],
)
def test_what_is_odd_but_allowed_is_kept_as_it_is(members):
    desk = open_desk()
    desk.drain()
    desk.invoke(peer(), invoke(**members))
    (line,) = desk.drain()
    record = parse(line)
    assert line.count(b"\n") == 1
    assert record["kind"] == "attempt"
    assert {name: record[name] for name in members} == members
    assert fault_in(TRIAL, KEY, seal(desk).records) is None


def test_action_and_key_may_be_left_out():
    desk = open_desk()
    desk.invoke(peer(), json.dumps({"trial": TOKEN, "id": "i", "effect": "charge"}).encode())
    attempt = seal(desk).records[1]
    assert (attempt["key"], attempt["action"]) == (None, None)


FIRST = {"effect": "charge", "key": "k", "action": {"n": 1}, "id": "i"}


@pytest.mark.parametrize(
    ("what", "sender", "kind"),
    [
        ({}, peer(), "resend"),
        ({}, Peer(100, 1000, 1000, 8), "attempt"),
        ({}, peer(101), "attempt"),
        ({}, Peer(100, 0, 1000, 700), "attempt"),
        ({}, Peer(100, 1000, 0, 700), "attempt"),
        ({"id": "j"}, peer(), "attempt"),
        ({"action": {"n": 2}}, peer(), "attempt"),
        ({"action": {"n": 1.0}}, peer(), "attempt"),
        ({"effect": "mail"}, peer(), "attempt"),
        ({"key": "l"}, peer(), "attempt"),
        ({"key": None}, peer(), "attempt"),
    ],
)
def test_only_the_same_process_saying_the_same_sends_again(what, sender, kind):
    desk = open_desk()
    desk.invoke(peer(), request(**FIRST))
    desk.invoke(sender, request(**{**FIRST, **what}))
    assert seal(desk).records[2]["kind"] == kind


def test_a_process_may_send_again_what_another_sent_under_the_same_id_before():
    desk = open_desk()
    for sender in (peer(1), peer(2), peer(2), peer(1)):
        desk.invoke(sender, request(**FIRST))
    kinds = [record["kind"] for record in seal(desk).records]
    assert kinds == ["open", "attempt", "attempt", "resend", "resend", "seal"]


def test_the_same_request_gets_the_same_receipt_and_any_other_gets_another():
    desk = open_desk()
    receipts = [
        desk.invoke(sender, request(**{**FIRST, **what}))["receipt"]
        for sender, what in [
            (peer(1), {}),
            (peer(1), {}),
            (peer(2), {}),
            (peer(1), {"id": "j"}),
            (peer(1), {"action": 2}),
            (peer(1), {"effect": "mail"}),
            (peer(1), {"key": "l"}),
            (peer(1), {"key": None}),
        ]
    ]
    assert len(set(receipts[:3])) == 1
    assert len(set(receipts)) == 6


def test_receipts_are_the_trials_own():
    desk = open_desk()
    other = trial_key(RUN_KEY, "t-2").hex()
    admin(desk, "open", trial="t-2", key=other, invoke="token-2", witness="w-2")
    first = desk.invoke(peer(), request(**FIRST))
    second = desk.invoke(peer(), request(**FIRST, trial="token-2"))
    assert first != second


requests = st.fixed_dictionaries(
    {
        "effect": st.sampled_from(["charge", "mail"]),
        "key": st.none() | st.sampled_from(["k", "l"]),
        "action": st.integers(0, 2),
        "id": st.sampled_from(["i", "j"]),
    }
)


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from([1, 2]), requests), min_size=1, max_size=8))
def test_a_reply_tells_nothing_and_rests_on_one_line(sent):
    desk = open_desk()
    desk.drain()
    for pid, members in sent:
        reply = desk.invoke(peer(pid), request(**members))
        assert list(reply) == ["receipt"]
        assert len(json.dumps(reply)) == 79
        assert len(desk.drain()) == 1


def test_a_mismatch_is_told_to_nobody_but_the_record():
    desk = open_desk()
    desk.invoke(peer(), request(key="k", action=1))
    desk.invoke(peer(), request(key="k", action=2))
    desk.invoke(peer(), request(key="k", action=1))
    desk.invoke(peer(), request(key="l", action=2))
    assert [r["mismatch"] for r in seal(desk).records[1:-1]] == [False, True, False, False]


def test_a_receiver_appends_and_reads_what_receivers_wrote():
    desk = open_desk()
    desk.invoke(peer(), request())
    told = [
        desk.witness(peer(7), json.dumps({"token": WITNESS, "append": body}).encode())
        for body in ({"a": 1}, None)
    ]
    assert told == [{"n": 2}, {"n": 3}]
    read = json.dumps({"token": WITNESS}).encode()
    assert desk.witness(peer(7), read) == {"records": [{"a": 1}, None]}
    assert seal(desk).records[2]["peer"]["pid"] == 7


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{}", "no open trial"),
        (json.dumps({"token": TOKEN}).encode(), "no open trial"),
        (json.dumps({"token": TOKEN, "append": 1}).encode(), "no open trial"),
        (json.dumps({"token": WITNESS, "do": "seal"}).encode(), "unknown member 'do'"),
        (b"x", "not JSON"),
    ],
)
def test_what_a_receiver_is_refused(line, reason):
    desk = open_desk()
    with pytest.raises(Refused, match=reason):
        desk.witness(peer(), line)


def test_a_trial_that_is_full_takes_nothing_more_but_can_be_read_and_sealed(monkeypatch):
    monkeypatch.setattr(desk_module, "RECORDS_MAX", 3)
    desk = open_desk()
    append = json.dumps({"token": WITNESS, "append": "x"}).encode()
    desk.witness(peer(), append)
    desk.invoke(peer(), request())
    for refuse in (
        lambda: desk.invoke(peer(), request()),
        lambda: desk.witness(peer(), append),
    ):
        with pytest.raises(Refused, match="the trial is full: it holds 3 records"):
            refuse()
    assert desk.witness(peer(), json.dumps({"token": WITNESS}).encode()) == {"records": ["x"]}
    assert seal(desk).count == 4


def test_after_the_seal_no_token_is_known():
    desk = open_desk()
    seal(desk)
    for refuse in (
        lambda: desk.invoke(peer(), request()),
        lambda: desk.witness(peer(), json.dumps({"token": WITNESS}).encode()),
    ):
        with pytest.raises(Refused, match="no open trial"):
            refuse()
    assert "no open trial" in admin(desk, "peek", trial=TRIAL)["error"]
    assert "no open trial" in admin(desk, "seal", trial=TRIAL, note="")["error"]


def test_a_name_is_used_once():
    desk = open_desk()
    again = {"trial": TRIAL, "key": KEY.hex(), "invoke": "x", "witness": "y"}
    assert "was opened before" in admin(desk, "open", **again)["error"]
    seal(desk)
    assert "was opened before" in admin(desk, "open", **again)["error"]


def test_a_peek_changes_nothing():
    desk = open_desk()
    desk.invoke(peer(), request())
    desk.drain()
    assert [r["kind"] for r in admin(desk, "peek", trial=TRIAL)["records"]] == ["open", "attempt"]
    assert desk.drain() == []


def recovered(desk: Desk) -> list[dict[str, object]]:
    return [parse(line) for line in desk.drain()]


def test_another_desk_goes_on_with_what_it_recovers():
    before = open_desk()
    receipt = before.invoke(peer(), request(**FIRST))
    desk = open_desk(recovered=recovered(before))
    assert desk.drain() == [], "an opened trial is not opened again"
    assert desk.invoke(peer(), request(**FIRST)) == receipt
    desk.invoke(peer(2), request(**{**FIRST, "action": 2, "id": "j"}))
    chain = seal(desk)
    assert [r["kind"] for r in chain.records] == ["open", "attempt", "resend", "attempt", "seal"]
    assert [r.get("mismatch") for r in chain.records] == [None, False, False, True, None]
    assert fault_in(TRIAL, KEY, chain.records) is None


def test_a_trial_that_was_sealed_before_the_daemon_died_takes_nothing_and_seals_as_it_was():
    before = open_desk()
    before.invoke(peer(), request())
    chain = seal(before)
    desk = open_desk(recovered=list(chain.records))
    with pytest.raises(Refused, match="no open trial"):
        desk.invoke(peer(), request())
    assert seal(desk) == chain
    assert desk.drain() == []


def test_records_that_do_not_verify_open_nothing_however_often_one_asks():
    before = open_desk()
    before.invoke(peer(), request())
    records = recovered(before)
    records[1]["effect"] = "other"
    desk = Desk(records, lambda: 1)
    ask = {"trial": TRIAL, "key": KEY.hex(), "invoke": TOKEN, "witness": WITNESS}
    for _ in range(2):
        said = admin(desk, "open", **ask)["error"]
        assert "does not verify: record 1: content does not match its hash" in said
    assert desk.drain() == []


def test_recovered_trials_that_nobody_opens_again_stay_shut():
    before = open_desk()
    desk = Desk(recovered(before), lambda: 1)
    with pytest.raises(Refused, match="no open trial"):
        desk.invoke(peer(), request())
