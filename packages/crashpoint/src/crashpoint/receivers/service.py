"""What a receiver does with a request: a pure function from one state to the next, without a clock.

A state is a fold of records, one for each request that changed something or tried to; reads leave
none. Only a record whose `did` is `acted` is a crossing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from crashpoint.receivers.dialect import Dialect, Keys
from crashpoint.receivers.ops import (
    KEY,
    RECEIVERS,
    Op,
    Refusal,
    Request,
    checked,
    checked_change,
    shown,
)

__all__ = [
    "Handled",
    "NotARecord",
    "Record",
    "Reply",
    "State",
    "fold",
    "handle",
    "refuse",
    "refused",
]

Reply = dict[str, Any]
"""`status` as in HTTP and `body`, an object; when refused `{"error": sentence}`."""
Record = dict[str, Any]
"""`receiver`, `op`, `args`, `key`, `did` (acted, repeated, refused; asked, see `person`), `id` (of
what was made, numbered through all operations from 1; null when refused), `at_s`. Never changed."""


class NotARecord(ValueError):
    """What stands among a receiver's records is none of its own making."""


class Handled(NamedTuple):
    """A request's answer, the state after it, and the record to keep before the answer goes out."""

    state: State
    reply: Reply
    record: Record | None


class State:
    """A receiver's records up to some moment. Immutable: `then` gives another one.

    Successors share one list as long as each is made from the newest; one made from an older state
    takes a copy first. So states are copied by keeping them, and a request costs no more late than
    early.
    """

    __slots__ = ("_log", "_size", "acted", "asked", "receiver")

    def __init__(self, receiver: str, log: _Log, size: int, acted: int, asked: int) -> None:
        self.receiver = receiver
        self._log = log
        self._size = size
        self.acted = acted
        """Crossings so far."""
        self.asked = asked
        """Questions to the person so far."""

    @classmethod
    def empty(cls, receiver: str) -> State:
        """The state before any request; raises KeyError for a receiver that does not exist."""
        RECEIVERS[receiver]
        return cls(receiver, _Log(()), 0, 0, 0)

    @property
    def records(self) -> list[Record]:
        """All records, oldest first."""
        return self._log.records[: self._size]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, State):
            return NotImplemented
        return self.receiver == other.receiver and self.records == other.records

    __hash__ = None  # type: ignore[assignment]

    def key(self) -> Hashable:
        """Equal for equal states."""
        return (
            self.receiver,
            *[
                (r["did"], r["op"], r["key"], r["id"], r["at_s"], repr(r["args"]))
                for r in self.records
            ],
        )

    def crossings(self) -> Iterator[Record]:
        """The records that acted, oldest first."""
        return iter(self._log.acts[: self.acted])

    def made(self, op: str, number: int) -> Record | None:
        """The record of the thing with this number, if that operation made it."""
        if number > self.acted:
            return None
        record = self._log.acts[number - 1]
        return record if record["op"] == op else None

    def first_under(self, key: str, retention_s: float | None, now_s: float) -> Record | None:
        """The record that acted under a key, unless that is too long ago to be remembered."""
        for position in reversed(self._log.of_key.get(key, ())):
            if position < self.acted:
                record = self._log.acts[position]
                if retention_s is None or now_s - record["at_s"] < retention_s:
                    return record
                return None
        return None

    def then(self, record: Record) -> State:
        """The state with one more record."""
        log = self._log
        if len(log.records) != self._size:
            log = _Log(log.records[: self._size])
        log.add(record)
        did = record["did"]
        return State(
            self.receiver,
            log,
            self._size + 1,
            self.acted + (did == "acted"),
            self.asked + (did == "asked"),
        )


class _Log:
    """The records that states share; each state knows how many of them are its own."""

    __slots__ = ("acts", "of_key", "records")

    def __init__(self, records: Iterable[Record]) -> None:
        self.records: list[Record] = []
        self.acts: list[Record] = []
        self.of_key: dict[str, list[int]] = {}
        for record in records:
            self.add(record)

    def add(self, record: Record) -> None:
        self.records.append(record)
        if record["did"] == "acted":
            key = record["key"]
            if key is not None:
                self.of_key.setdefault(key, []).append(len(self.acts))
            self.acts.append(record)


def handle(state: State, request: Request, dialect: Dialect, now_s: float) -> Handled:
    """Answer one request at `now_s`, seconds on the receiver's clock. Never raises.

    A malformed request is answered with 400 and leaves no record.
    """
    try:
        op, args = checked(state.receiver, request)
        if op.noun is None:
            body = _READS[op.name](state, args, dialect, now_s)
            return Handled(state, {"status": 200, "body": body}, None)
        key = _key(op, request)
    except Refusal as refusal:
        return Handled(state, refused(refusal), None)
    first = None
    if key is not None and dialect.keys is not Keys.NONE:
        first = state.first_under(key, dialect.retention_s, now_s)
    if first is None:
        problem = _RULES[op.name](state, args)
        answered, did, number = op, "acted", state.acted + 1
    else:
        problem = _mismatch(first, op, args) if dialect.keys is Keys.CHECKED else None
        answered, did, number = RECEIVERS[state.receiver][first["op"]], "repeated", first["id"]
    record = {
        "receiver": state.receiver,
        "op": op.name,
        "args": args,
        "key": key,
        "did": did,
        "id": number,
        "at_s": now_s,
    }
    reply = {"status": 200, "body": {answered.noun: number}}
    if problem is not None:
        record["did"], record["id"] = "refused", None
        reply = refused(problem)
    return Handled(state.then(record), reply, record)


def refuse(handled: Handled, before: State, refusal: Refusal) -> Handled:
    """The same request refused instead: what `handle` gave for it, and the state it began from."""
    if handled.record is None:
        return handled
    record = {**handled.record, "did": "refused", "id": None}
    return Handled(before.then(record), refused(refusal), record)


def fold(receiver: str, records: Iterable[Any]) -> State:
    """The state that a receiver's records came to; those of other receivers are passed over.

    Raises NotARecord.
    """
    state = State.empty(receiver)
    for record in records:
        if isinstance(record, Mapping) and record.get("receiver") == receiver:
            lacking = _RECORD - record.keys()
            if lacking:
                raise NotARecord(f"a record of {receiver} lacks {min(lacking)!r}: {shown(record)}")
            state = state.then(dict(record))
    return state


def _key(op: Op, request: Request) -> str | None:
    key: str | None = request.get("key")
    if key is not None and not KEY.fits(key):
        raise Refusal(400, f"{op.name}: key must be {KEY.says}, not {shown(key)}")
    return key


def _mismatch(first: Record, op: Op, args: dict[str, Any]) -> Refusal | None:
    if first["op"] == op.name and first["args"] == args:
        return None
    return Refusal(422, f"{op.name}: this key came with another request before")


def refused(refusal: Refusal) -> Reply:
    """The reply that tells of a refusal."""
    return {"status": refusal.status, "body": {"error": str(refusal)}}


def _always(_state: State, _args: dict[str, Any]) -> None:
    """Nothing the state could forbid."""


def _comment_rule(state: State, args: dict[str, Any]) -> Refusal | None:
    issue = args["issue"]
    if state.made("file", issue) is None:
        return Refusal(404, f"comment: there is no issue {issue}")
    return None


def _refund_rule(state: State, args: dict[str, Any]) -> Refusal | None:
    charge = state.made("charge", args["charge"])
    if charge is None:
        return Refusal(404, f"refund: there is no charge {args['charge']}")
    left = charge["args"]["cents"] - _refunded(state, charge)
    if args["cents"] > left:
        what = f"the {left} left of charge {charge['id']}"
        return Refusal(409, f"refund: {args['cents']} cents are more than {what}")
    return None


def _refunded(state: State, charge: Record) -> int:
    return sum(
        record["args"]["cents"]
        for record in state.crossings()
        if record["op"] == "refund" and record["args"]["charge"] == charge["id"]
    )


def _visible(state: State, dialect: Dialect, now_s: float) -> Iterator[Record]:
    for record in state.crossings():
        if now_s - record["at_s"] >= dialect.visible_within_s:
            yield record


def _search(state: State, args: dict[str, Any], dialect: Dialect, now_s: float) -> dict[str, Any]:
    text = args["text"]
    return {
        "issues": [
            record["id"]
            for record in _visible(state, dialect, now_s)
            if record["op"] == "file"
            and (text in record["args"]["title"] or text in record["args"]["body"])
        ]
    }


def _look_up(state: State, args: dict[str, Any], dialect: Dialect, now_s: float) -> dict[str, Any]:
    _need_lookup(dialect)
    return {
        "charges": [
            {
                "charge": record["id"],
                "cents": record["args"]["cents"],
                "currency": record["args"]["currency"],
                "refunded": _refunded(state, record),
            }
            for record in _visible(state, dialect, now_s)
            if record["op"] == "charge" and record["args"]["order"] == args["order"]
        ]
    }


def _find(state: State, args: dict[str, Any], dialect: Dialect, now_s: float) -> dict[str, Any]:
    """`ids` of what was made; `final` when the answer cannot change.

    Not found is final once the asker's last send is `age_s` old and would show by now: the receiver
    cannot say so by itself without telling what it does not show yet. A request still under way is
    seen by nobody.
    """
    _need_lookup(dialect)
    op, wanted, key, age_s = args["op"], args["args"], args["key"], args["age_s"]
    if (key is None) == (op is None) or (op is None) != (wanted is None):
        raise Refusal(400, "find: give either op and args, or key")
    if key is None:
        _, wanted = checked_change(state.receiver, {"op": op, "args": wanted})
        found = [
            record["id"]
            for record in _visible(state, dialect, now_s)
            if record["op"] == op and record["args"] == wanted
        ]
        final = age_s >= dialect.visible_within_s
    else:
        if dialect.keys is Keys.NONE:
            raise Refusal(400, "find: this receiver keeps no keys; give op and args")
        first = state.first_under(key, dialect.retention_s, now_s)
        shows = first is not None and now_s - first["at_s"] >= dialect.visible_within_s
        found = [first["id"]] if first is not None and shows else []
        is_kept = dialect.retention_s is None or age_s < dialect.retention_s
        final = is_kept and age_s >= dialect.visible_within_s
    return {"found": bool(found), "final": bool(found) or final, "ids": found}


def _need_lookup(dialect: Dialect) -> None:
    if not dialect.lookup:
        raise Refusal(404, f"this receiver offers no look-up (dialect {dialect.name})")


_RECORD: Final = frozenset({"receiver", "op", "args", "key", "did", "id", "at_s"})
_RULES: Final[Mapping[str, Callable[[State, dict[str, Any]], Refusal | None]]] = {
    "file": _always,
    "comment": _comment_rule,
    "charge": _always,
    "refund": _refund_rule,
}
_READS: Final[Mapping[str, Callable[[State, dict[str, Any], Dialect, float], dict[str, Any]]]] = {
    "search": _search,
    "look_up": _look_up,
    "find": _find,
}
