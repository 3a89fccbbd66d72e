"""The records of one ledger trial and the rule that makes them a chain.

A record names the hash of the one before it and carries a MAC under the trial's key. `Chain` builds
them, `fault_in` finds the first thing wrong with a finished list; both are pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from crashpoint.canonical import GENESIS, canonical, digest_of, link, mac, same

__all__ = ["Chain", "Kind", "Record", "SealedChain", "fault_in", "trial_key"]

Record = dict[str, Any]
"""`trial`, `n` (0, 1, ...), `kind`, `at_ns` (wall clock), `prev`, `hash`, `mac`, and by kind:

* attempt, resend: `peer` {pid, uid, gid, start}, `id`, `effect`, `key`, `action`, `digest`,
  `mismatch`
* witness: `peer`, `body`
* seal: `note` (the controller's digest of what it observed)
"""


class Kind(StrEnum):
    """What a record records."""

    OPEN = "open"
    ATTEMPT = "attempt"
    RESEND = "resend"
    WITNESS = "witness"
    SEAL = "seal"


@dataclass(frozen=True)
class SealedChain:
    """A finished trial as the controller holds it.

    `head` and `count` came to the controller from the daemon when it sealed and are kept apart from
    the records: a list cut at its tail or re-hashed as a whole no longer fits them.
    """

    trial: str
    key: bytes
    head: str
    count: int
    records: Sequence[Record]


class Chain:
    """A growing list of records of one trial; `append` is the only way in."""

    def __init__(self, trial: str, key: bytes, records: Sequence[Record] = ()) -> None:
        self.trial = trial
        self.key = key
        self.records = list(records)

    @property
    def head(self) -> str:
        """Hash of the last record, or the genesis value."""
        return self.records[-1]["hash"] if self.records else GENESIS

    @property
    def sealed(self) -> bool:
        """Whether the last record is a seal."""
        return bool(self.records) and self.records[-1]["kind"] == Kind.SEAL

    def append(self, kind: Kind, at_ns: int, **fields: Any) -> tuple[Record, bytes]:
        """Add the next record; returns it and its line for the ledger's file.

        Raises NotCanonical for a value that cannot be kept, and adds nothing.
        """
        record: Record = {
            **fields,
            "trial": self.trial,
            "n": len(self.records),
            "kind": str(kind),
            "at_ns": at_ns,
            "prev": self.head,
        }
        body = canonical(record)
        record["hash"] = digest_of(body)
        record["mac"] = mac(self.key, "record", record["hash"])
        self.records.append(record)
        # The two are spliced in because encoding a second time would cost as much as the hash.
        ending = f',"hash":"{record["hash"]}","mac":"{record["mac"]}"}}\n'
        return record, body[:-1] + ending.encode()


def trial_key(run_key: bytes, trial: str) -> bytes:
    """The MAC key (32 bytes) of one trial of a run."""
    return bytes.fromhex(mac(run_key, "trial", trial))


def fault_in(
    trial: str, key: bytes, records: Sequence[Mapping[str, Any]], *, complete: bool = True
) -> str | None:
    """The first thing wrong with a list of records, in one line, or None.

    `complete` asks for an open record at the start and a seal at the end. Never raises: whatever
    the records hold, the answer is a sentence. Records of a list without a fault have all members
    of their kind, of the right types.
    """
    prev = GENESIS
    for n, record in enumerate(records):
        problem = _record_fault(trial, key, record, n=n, prev=prev)
        if problem is not None:
            return f"record {n}: {problem}"
        if (record["kind"] == Kind.OPEN) != (n == 0):
            return f"record {n}: {record['kind']} record out of place"
        if record["kind"] == Kind.SEAL and n != len(records) - 1:
            return f"record {n}: records follow the seal"
        prev = record["hash"]
    if complete and (not records or records[-1]["kind"] != Kind.SEAL):
        return "no seal at the end"
    return None


def _record_fault(
    trial: str, key: bytes, record: Mapping[str, Any], *, n: int, prev: str
) -> str | None:
    try:
        if record["trial"] != trial:
            return f"belongs to trial {record['trial']!r}"
        if record["n"] != n:
            return f"is numbered {record['n']!r}"
        if record["prev"] != prev:
            return "does not follow the one before it"
        if record["hash"] != link(dict(record)):
            return "content does not match its hash"
        if not same(record["mac"], mac(key, "record", record["hash"])):
            return "MAC is not the ledger's"
        return _shape_fault(record)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return f"malformed ({type(error).__name__}: {error})"


def _shape_fault(record: Mapping[str, Any]) -> str | None:
    shape = {**_EVERY, **_OF_KIND[record["kind"]]}
    odd = sorted(shape.keys() ^ record.keys())
    if odd:
        return f"a record of kind {record['kind']} lacks or cannot have {odd[0]!r}"
    for name, types in shape.items():
        if type(record[name]) not in types:
            return f"{name} cannot be {record[name]!r}"
    if "peer" in shape and {name: type(value) for name, value in record["peer"].items()} != _PEER:
        return f"peer cannot be {record['peer']!r}"
    return None


_EVERY: Final[Mapping[str, tuple[type, ...]]] = {
    "trial": (str,),
    "n": (int,),
    "kind": (str,),
    "at_ns": (int,),
    "prev": (str,),
    "hash": (str,),
    "mac": (str,),
}
_ANY: Final = (type(None), bool, int, float, str, list, dict)
_PEER: Final[Mapping[str, type]] = dict.fromkeys(("pid", "uid", "gid", "start"), int)
_ATTEMPT: Final[Mapping[str, tuple[type, ...]]] = {
    "peer": (dict,),
    "id": (str,),
    "effect": (str,),
    "key": (type(None), str),
    "action": _ANY,
    "digest": (str,),
    "mismatch": (bool,),
}
_OF_KIND: Final[Mapping[str, Mapping[str, tuple[type, ...]]]] = {
    Kind.OPEN: {},
    Kind.ATTEMPT: _ATTEMPT,
    Kind.RESEND: _ATTEMPT,
    Kind.WITNESS: {"peer": (dict,), "body": _ANY},
    Kind.SEAL: {"note": (str,)},
}
