"""Chains for tests, made by the real desk, and what a forger can do to them."""

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count as numbers
from typing import Any

from crashpoint.canonical import GENESIS, link, mac
from crashpoint.ledger.chain import Record, SealedChain, trial_key
from crashpoint.ledger.desk import Desk, Peer

RUN_KEY = bytes(range(32))
TRIAL = "t-1"
KEY = trial_key(RUN_KEY, TRIAL)
TOKEN = "invoke-token"
WITNESS = "witness-token"


def peer(pid: int = 100) -> Peer:
    return Peer(pid, 1000, 1000, 7 * pid)


def admin(desk: Desk, do: str, **request: Any) -> dict[str, Any]:
    return desk.admin(json.dumps({"do": do, "seq": 1, **request}).encode())


def open_desk(trial: str = TRIAL, recovered: Sequence[Record] = ()) -> Desk:
    """A desk with one open trial and a clock that counts."""
    desk = Desk(list(recovered), numbers(1).__next__)
    key = trial_key(RUN_KEY, trial).hex()
    reply = admin(desk, "open", trial=trial, key=key, invoke=TOKEN, witness=WITNESS)
    assert "error" not in reply
    return desk


def request(effect: str = "charge", key: str | None = None, action: Any = 1, **more: Any) -> bytes:
    """A subject's line; `id` is drawn unless given."""
    message = {"trial": TOKEN, "id": f"id-{next(_ids)}", "effect": effect, "action": action}
    return json.dumps({**message, "key": key, **more}).encode()


def seal(desk: Desk, trial: str = TRIAL) -> SealedChain:
    reply = admin(desk, "seal", trial=trial, note="0" * 64)
    return SealedChain(
        trial, trial_key(RUN_KEY, trial), reply["head"], reply["count"], reply["records"]
    )


def sealed(*attempts: Mapping[str, Any], trial: str = TRIAL) -> SealedChain:
    """A sealed chain of requests; a member `pid` says who sent it."""
    desk = open_desk(trial)
    for attempt in attempts:
        fields = dict(attempt)
        desk.invoke(peer(fields.pop("pid", 100)), request(**fields))
    return seal(desk, trial)


def rehashed(records: Sequence[Any], key: bytes = KEY) -> list[Any]:
    """The records as somebody who holds `key` links them anew."""
    linked: list[Any] = []
    prev = GENESIS
    for n, record in enumerate(copy.deepcopy(list(records))):
        record |= {"n": n, "prev": prev}
        linked.append(signed(record, key))
        prev = linked[-1]["hash"]
    return linked


def signed(record: Record, key: bytes = KEY) -> Record:
    """One record with the hash and the MAC that its content wants."""
    own = link(record)
    return {**record, "hash": own, "mac": mac(key, "record", own)}


def believed(chain: SealedChain, records: Sequence[Any]) -> SealedChain:
    """What the oracle would see if even the controller's head and count fitted the records."""
    return replace(chain, records=records, head=records[-1]["hash"], count=len(records))


_ids = numbers(1)
