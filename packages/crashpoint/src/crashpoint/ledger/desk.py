"""What the ledger answers: requests in, records and replies out, without any I/O.

The daemon feeds it lines from three kinds of peer (invoke: a subject; witness: a receiver; admin:
the controller) and must make the lines it asks for durable before it delivers a reply.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from crashpoint.canonical import NotCanonical, digest, mac, parse
from crashpoint.ledger.chain import Chain, Kind, Record, fault_in

__all__ = ["DEPTH_MAX", "RECORDS_MAX", "TEXT_MAX", "Desk", "Peer", "Refused"]

RECORDS_MAX: Final = 100_000
"""Records one trial may hold; a subject in a loop is refused, not allowed to fill the disk."""
TEXT_MAX: Final = 4_096
"""Characters in a request id, effect name or key."""
DEPTH_MAX: Final = 64
"""Lists and objects one inside the other in a request; records stand inside replies and evidence,
so this is less than what `canonical` takes."""

Reply = dict[str, Any]


class Refused(Exception):
    """A request that is answered with an error and leaves no trace; str() is the answer."""


@dataclass(frozen=True)
class Peer:
    """Who is at the other end, as the kernel says: never what the request says."""

    pid: int
    uid: int
    gid: int
    start: int
    """Clock ticks after boot at which the process began: tells a re-used pid apart."""

    def as_json(self) -> dict[str, int]:
        """The form a record carries."""
        return {"pid": self.pid, "uid": self.uid, "gid": self.gid, "start": self.start}


@dataclass
class _Trial:
    chain: Chain
    invoke: str
    witness: str
    first_action: dict[tuple[str, str], str] = field(default_factory=dict)
    sent: set[tuple[Peer, str, str, str | None, str]] = field(default_factory=set)

    def note(self, peer: Peer, record: Record) -> None:
        """Learn from an attempt what later requests are compared with."""
        effect, key, action = record["effect"], record["key"], record["digest"]
        self.sent.add((peer, record["id"], effect, key, action))
        if key is not None:
            self.first_action.setdefault((effect, key), action)


class Desk:
    """All open trials. Each method returns a reply; `drain` returns the lines it rests on.

    `recovered` are the records of a file that another daemon left, `now_ns` the wall clock.
    """

    def __init__(self, recovered: list[Record], now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._recovered: dict[str, list[Record]] = {}
        for record in recovered:
            self._recovered.setdefault(str(record.get("trial")), []).append(record)
        self._trials: dict[str, _Trial] = {}
        self._sealed: set[str] = set()
        self._invoke: dict[str, _Trial] = {}
        self._witness: dict[str, _Trial] = {}
        self._fresh: list[bytes] = []

    def drain(self) -> list[bytes]:
        """Lines made since the last call, in order; durable before any reply goes out."""
        fresh, self._fresh = self._fresh, []
        return fresh

    def invoke(self, peer: Peer, line: bytes) -> Reply:
        """Perform an effect for a subject: {trial, id, effect, key?, action} -> {receipt}.

        `trial` is the token the subject was given. The reply has the same shape, and costs the same
        one append, whether the effect is new, known or a re-send. Raises Refused.
        """
        request = _request(line, _INVOKE)
        trial = self._of_token(self._invoke, request.get("trial"))
        request_id = _text(request, "id")
        effect = _text(request, "effect")
        key = None if request.get("key") is None else _text(request, "key")
        action = request.get("action")
        action_digest = digest(action)
        # Only the very process that sent it may send it again: a restarted subject that repeats a
        # request id would otherwise hide a second effect behind its own promise.
        is_resend = (peer, request_id, effect, key, action_digest) in trial.sent
        first = action_digest if key is None else trial.first_action.get((effect, key))
        record = self._append(
            trial,
            Kind.RESEND if is_resend else Kind.ATTEMPT,
            peer=peer.as_json(),
            id=request_id,
            effect=effect,
            key=key,
            action=action,
            digest=action_digest,
            mismatch=first is not None and first != action_digest,
        )
        if not is_resend:
            trial.note(peer, record)
        content = (request_id, effect, key or "", action_digest)
        return {"receipt": mac(trial.chain.key, "receipt", *content)}

    def witness(self, peer: Peer, line: bytes) -> Reply:
        """A receiver appends ({token, append: value}) to, or reads ({token}), its own trial."""
        request = _request(line, _WITNESS)
        trial = self._of_token(self._witness, request.get("token"))
        if "append" not in request:
            bodies = [r["body"] for r in trial.chain.records if r["kind"] == Kind.WITNESS]
            return {"records": bodies}
        record = self._append(trial, Kind.WITNESS, peer=peer.as_json(), body=request["append"])
        return {"n": record["n"]}

    def admin(self, line: bytes) -> Reply:
        """The controller's requests: open, peek, seal. Replies repeat the request's `seq`."""
        request = parse(line)
        verbs = {"open": self._do_open, "peek": self._do_peek, "seal": self._do_seal}
        try:
            reply = verbs[request["do"]](request)
        except Refused as refusal:
            reply = {"error": str(refusal)}
        return {**reply, "seq": request["seq"]}

    def _do_open(self, request: Mapping[str, Any]) -> Reply:
        name = request["trial"]
        if name in self._trials or name in self._sealed:
            raise Refused(f"trial {name!r} was opened before; a name is used once per run")
        key = bytes.fromhex(request["key"])
        known = self._recovered.get(name, [])
        problem = fault_in(name, key, known, complete=False)
        if problem is not None:
            raise Refused(f"trial {name!r} does not verify: {problem}")
        trial = _Trial(Chain(name, key, known), request["invoke"], request["witness"])
        for record in known:
            if record["kind"] == Kind.ATTEMPT:
                trial.note(Peer(**record["peer"]), record)
        if not known:
            self._log(trial, Kind.OPEN)
        self._recovered.pop(name, None)
        self._trials[name] = trial
        if not trial.chain.sealed:
            self._invoke[trial.invoke] = self._witness[trial.witness] = trial
        return {"count": len(trial.chain.records)}

    def _do_peek(self, request: Mapping[str, Any]) -> Reply:
        return {"records": self._named(request).chain.records}

    def _do_seal(self, request: Mapping[str, Any]) -> Reply:
        trial = self._named(request)
        chain = trial.chain
        # Sealed already: by a daemon that died before it could say so.
        if not chain.sealed:
            self._log(trial, Kind.SEAL, note=request["note"])
            del self._invoke[trial.invoke], self._witness[trial.witness]
        del self._trials[chain.trial]
        self._sealed.add(chain.trial)
        return {"records": chain.records, "head": chain.head, "count": len(chain.records)}

    def _named(self, request: Mapping[str, Any]) -> _Trial:
        trial = self._trials.get(request["trial"])
        if trial is None:
            raise Refused(f"no open trial {request['trial']!r}")
        return trial

    @staticmethod
    def _of_token(table: Mapping[str, _Trial], token: object) -> _Trial:
        trial = table.get(token) if isinstance(token, str) else None
        if trial is None:
            raise Refused("no open trial for this token: it was never given out, or is sealed")
        return trial

    def _append(self, trial: _Trial, kind: Kind, **fields: Any) -> Record:
        if len(trial.chain.records) >= RECORDS_MAX:
            raise Refused(f"the trial is full: it holds {RECORDS_MAX} records")
        return self._log(trial, kind, **fields)

    def _log(self, trial: _Trial, kind: Kind, **fields: Any) -> Record:
        record, line = trial.chain.append(kind, self._now_ns(), **fields)
        self._fresh.append(line)
        return record


_INVOKE: Final = frozenset({"trial", "id", "effect", "key", "action"})
_WITNESS: Final = frozenset({"token", "append"})


def _request(line: bytes, known: frozenset[str]) -> dict[str, Any]:
    try:
        request = parse(line, depth_max=DEPTH_MAX)
    except NotCanonical as error:
        raise Refused(str(error)) from None
    if not isinstance(request, dict):
        raise Refused("a request is one JSON object on one line")
    if not request.keys() <= known:
        unknown = min(request.keys() - known)
        raise Refused(f"unknown member {unknown[:80]!r}; known are {', '.join(sorted(known))}")
    return request


def _text(request: Mapping[str, Any], name: str) -> str:
    value = request.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= TEXT_MAX:
        raise Refused(f"{name} must be a string of 1 to {TEXT_MAX} characters")
    return value
