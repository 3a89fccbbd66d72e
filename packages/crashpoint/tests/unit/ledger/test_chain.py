"""How a chain grows, and what its lines are."""

import pytest

from crashpoint.canonical import GENESIS, NotCanonical, link, mac, parse
from crashpoint.ledger.chain import Chain, Kind, fault_in, trial_key
from unit.ledger.chains import KEY, RUN_KEY, TRIAL, open_desk, peer, request


def test_each_record_names_the_one_before_and_carries_a_mac():
    chain = Chain(TRIAL, KEY)
    assert chain.head == GENESIS
    first, _ = chain.append(Kind.OPEN, 1)
    second, _ = chain.append(Kind.SEAL, 2, note="n")
    assert [first["prev"], second["prev"]] == [GENESIS, first["hash"]]
    assert [first["n"], second["n"]] == [0, 1]
    for record in (first, second):
        assert record["hash"] == link(record)
        assert record["mac"] == mac(KEY, "record", record["hash"])
    assert chain.head == second["hash"]
    assert chain.sealed


def test_a_line_reads_back_as_its_record():
    chain = Chain(TRIAL, KEY)
    action = {"é": ['"', "\n", 1.5, None], "hash": "x", "mac": "y"}
    for kind, fields in ((Kind.OPEN, {}), (Kind.WITNESS, {"peer": {}, "body": action})):
        record, line = chain.append(kind, 1, **fields)
        assert line.endswith(b"\n")
        assert line.count(b"\n") == 1
        assert parse(line) == record


def test_a_value_that_cannot_be_kept_adds_nothing():
    chain = Chain(TRIAL, KEY)
    chain.append(Kind.OPEN, 1)
    with pytest.raises(NotCanonical):
        chain.append(Kind.SEAL, 2, note=float("nan"))
    assert len(chain.records) == 1
    assert fault_in(TRIAL, KEY, chain.records, complete=False) is None


def test_a_chain_goes_on_from_recovered_records():
    chain = Chain(TRIAL, KEY)
    chain.append(Kind.OPEN, 1)
    again = Chain(TRIAL, KEY, chain.records)
    again.append(Kind.SEAL, 2, note="n")
    assert fault_in(TRIAL, KEY, again.records) is None
    assert len(chain.records) == 1


def test_each_trial_has_a_key_of_its_own():
    keys = {trial_key(RUN_KEY, name) for name in ("t-1", "t-2", "")} | {trial_key(b"x" * 32, "t-1")}
    assert len(keys) == 4
    assert {len(key) for key in keys} == {32}


def test_the_desk_makes_lines_in_the_order_of_its_records():
    desk = open_desk()
    desk.invoke(peer(), request())
    desk.witness(peer(), b'{"token":"witness-token","append":{"a":1}}')
    records = [parse(line) for line in desk.drain()]
    assert [record["kind"] for record in records] == ["open", "attempt", "witness"]
    assert fault_in(TRIAL, KEY, records, complete=False) is None
