"""What the engine keeps of runs, waits, events, approvals and effects, as it is stored."""

from __future__ import annotations

import msgspec

from outlive.core.tables import Approval, Effect, Run

__all__ = [
    "AppRow",
    "ApprovalRow",
    "EarlyRow",
    "EffectRow",
    "EventRow",
    "NumbersRow",
    "RunRow",
    "SessionRow",
    "ValueRow",
    "WaitRow",
    "pack",
]

pack = msgspec.msgpack.Encoder().encode


class _Row(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Fields may be added with a default; none is taken away or given another meaning."""


class RunRow(_Row):
    """A run. Its input is entry 0 of its record."""

    id: str
    no: int
    app: str
    workflow: str
    input_digest: str
    state: Run = Run.QUEUED
    session: str = ""
    """Who has it; empty: nobody."""
    asleep: bool = False
    """It waits, and needs no worker until an entry comes."""
    retry_ms: int = 0
    """When it is woken to try a step again; 0: it is not."""
    seq: int = 0
    """Its last entry when this row was written; behind while a session has it."""
    epoch: int = 0
    """Grows with each owner; the incarnation of the store stands in its high bits."""
    made_ms: int = 0
    changed_ms: int = 0
    value: bytes = b""
    """The encoded result or error, when final, unless it is large."""
    value_bytes: int = 0
    """How large a value is that has a record of its own, kept out of the way of lists."""
    cause: str = ""
    """Why it needs attention."""
    unsettled: int = 0
    """Effects that were marked, and of which nobody knew that they had happened, when it left."""
    parent: str = ""
    parent_call: str = ""
    detached: bool = False
    versions: dict[str, str] = {}
    """What the runner that had it last said of its versions: shown, and nothing else."""
    event_no: int = 0
    """Events with a greater number came after its start."""
    seen: dict[str, int] = {}
    """Name of an event -> number up to which this run has taken all that came after its start."""
    taken: dict[str, list[int]] = {}
    """Name of an event -> greater numbers that it has taken."""
    past: dict[str, int] = {}
    """Name of an event -> number of the store's record after which to look for the next."""
    cancelled: bool = False
    """Whether it was to be cancelled, ever: after that it cannot complete."""
    deaths: int = 0
    """How often a process died with a body of this run in flight."""
    deaths_alone: int = 0
    """How often with nothing else in flight: only these count as its own."""


class ValueRow(_Row):
    """A large result or error of a run."""

    value: bytes


class WaitRow(_Row):
    """A wait that is open."""

    run: str
    call: str
    kind: str
    about: bytes
    made_ms: int
    due_ms: int | None = None


class EventRow(_Row):
    """An event that was sent."""

    app: str
    name: str
    id: str
    data: bytes
    at_ms: int
    number: int


class ApprovalRow(_Row):
    """A question to a person."""

    id: str
    run: str
    call: str
    title: str
    details: bytes
    digest: str
    state: Approval = Approval.PENDING
    made_ms: int = 0
    decided_ms: int = 0
    by: str = ""
    comment: str = ""


class EffectRow(_Row):
    """An effect from its marker on."""

    run: str
    call: str
    key: str
    dialect: str
    digest: str
    trial: int
    state: Effect = Effect.MARKED
    sends: list[int] = []
    """When it was, or may have been, sent."""


class EarlyRow(_Row):
    """A decision that came before its question."""

    digest: str
    approved: bool
    by: str
    comment: str
    at_ms: int


class SessionRow(_Row):
    """A session that has not ended. Its lease is kept on the engine's own clock, not here."""

    id: str
    app: str
    runner: str
    token: str
    """SHA-256 of the token, in hex."""
    ttl_ms: int
    workflows: dict[str, list[str]]
    room: int
    versions: dict[str, str] = {}


class AppRow(_Row):
    """What runners of an app said that it consists of."""

    workflows: dict[str, list[str]] = {}
    """Name of a workflow -> names of the events that start it."""


class NumbersRow(_Row):
    """What is given out once. Blocks are reserved, so what is here is ahead of what was used."""

    runs: int = 0
    events: int = 0
    incarnation: int = 0
    time_ms: int = 0
