"""`outlive.connect.v1`: the messages between a runner and the engine (see docs/protocol.md).

A frame is one binary WebSocket message: a MessagePack array of messages, each an array that begins
with its name. Values travel as the bytes of `outlive.wire.values` and are never looked into.
Instants are milliseconds since 1970, in UTC.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

__all__ = [
    "FRAME_MAX",
    "KINDS",
    "PROTOCOL",
    "Accepted",
    "Ask",
    "Beat",
    "Bye",
    "Dispatch",
    "Done",
    "Entry",
    "Evict",
    "Finish",
    "FrameFault",
    "FromRunner",
    "Have",
    "Hello",
    "Park",
    "Refused",
    "Started",
    "Suspend",
    "ToRunner",
    "Tried",
    "Welcome",
    "from_engine",
    "from_runner",
    "packed",
]

PROTOCOL: Final = "outlive.connect.v1"
FRAME_MAX: Final = 32 << 20
"""Bytes of a frame."""
KINDS: Final = {
    "done": "a step ended: `ok` and its value, or its error",
    "refused": "a step ended and its result cannot be stored; `value` is why",
    "tried": "an attempt failed: `value` is MessagePack of [again_ms, error]",
    "asked": "a wait is open: `value` is MessagePack of [kind, about, due_ms or nil]",
    "met": "a wait is over: `ok` and a value; not `ok`: timed out (nil), or a child's error",
    "emitted": "an event was sent",
    "marked": "an effect is about to go out: `value` is MessagePack of the Mark",
    "cancelling": "the run is to be cancelled",
}
"""What an entry says. Entry 0 is the input and travels in Dispatch."""


Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
"""What can be stored; a frame with another number is none."""


class _Message(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    pass


class Have(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """A run that a runner has; `seq` is the last entry that it received without a gap."""

    run: str
    epoch: Count
    seq: Count


# --- from a runner ------------------------------------------------------------------------------


class Hello(_Message, tag="hello", frozen=True):
    """The first message. `session` and `token` are those of a Welcome to go on with, or empty."""

    app: str
    workflows: dict[str, list[str]]
    """Name of a workflow -> names of the events that start it."""
    runner: str
    room: Count
    """Runs that it takes at once."""
    session: str = ""
    token: str = ""
    key: str = ""
    versions: dict[str, str] = {}
    have: list[Have] = []
    """The runs that a returning session still has."""


class Beat(_Message, tag="beat", frozen=True):
    """The runner lives; renews the lease of its session. What one side missed is sent again."""

    number: Count
    have: list[Have] = []
    """The runs it has."""


class Bye(_Message, tag="bye", frozen=True):
    """The runner ends by itself and runs nothing any more."""


class Started(_Message, tag="started", frozen=True):
    """A body begins: who is charged when the process dies. Not stored."""

    run: str
    epoch: Count
    call: str


class Done(_Message, tag="done", frozen=True):
    """A step ended: `ok` and its encoded value, or its encoded error. Sent until answered."""

    run: str
    epoch: Count
    call: str
    attempt: Count
    ok: bool
    value: bytes
    refused: bool = False
    """It happened, and what it returned cannot be stored; `value` says why."""


class Tried(_Message, tag="tried", frozen=True):
    """An attempt failed and another one follows not before `again_ms`."""

    run: str
    epoch: Count
    call: str
    attempt: Count
    error: bytes
    again_ms: Count


class Ask(_Message, tag="ask", frozen=True):
    """A wait, or a marker. What `about` holds depends on `kind`: see docs/protocol.md."""

    run: str
    epoch: Count
    call: str
    kind: str
    about: bytes
    """MessagePack of the struct of that kind in `outlive.wire.asks`."""


class Suspend(_Message, tag="suspend", frozen=True):
    """Nothing goes on in this run until a wait is met; `seq` is the last entry that was seen."""

    run: str
    epoch: Count
    seq: Count


class Finish(_Message, tag="finish", frozen=True):
    """The code ended: a result, an error, or a cancel that was heard."""

    run: str
    epoch: Count
    seq: Count
    outcome: str
    """`completed`, `failed` or `cancelled`."""
    value: bytes


class Park(_Message, tag="park", frozen=True):
    """The run cannot go on here and a person has to look; `cause` is one line."""

    run: str
    epoch: Count
    cause: str


FromRunner = Hello | Beat | Bye | Started | Done | Tried | Ask | Suspend | Finish | Park


# --- from the engine ----------------------------------------------------------------------------


class Welcome(_Message, tag="welcome", frozen=True):
    """The session is on; `ttl_ms` is how long its lease holds after a beat."""

    session: str
    token: str
    ttl_ms: int
    now_ms: int


class Accepted(_Message, tag="accepted", frozen=True):
    """The answer to Beat, once the lease is renewed."""

    number: int
    now_ms: int


class Refused(_Message, tag="refused", frozen=True):
    """The connection ends; `cause` is one line."""

    cause: str


class Entry(_Message, tag="entry", frozen=True):
    """One entry of a run's record, durable."""

    run: str
    epoch: int
    seq: int
    kind: str
    """One of KINDS."""
    call: str
    at_ms: int
    ok: bool
    value: bytes
    """Empty: the value of the Done that this answers."""
    attempt: int = 0


class Dispatch(_Message, tag="dispatch", frozen=True):
    """Run this: the input, and the record so far in order."""

    run: str
    epoch: int
    workflow: str
    input: bytes
    started_ms: int
    last_seq: int
    """The last entry of the record; those that do not fit in here follow as messages."""
    entries: list[Entry]


class Evict(_Message, tag="evict", frozen=True):
    """Stop this run at once and send nothing more for it: another owns it, or nobody may."""

    run: str
    epoch: int


ToRunner = Welcome | Accepted | Refused | Entry | Dispatch | Evict


class FrameFault(ValueError):
    """A frame that is not one; the message says where."""


_encoder = msgspec.msgpack.Encoder()
_from_runner = msgspec.msgpack.Decoder(list[FromRunner])
_from_engine = msgspec.msgpack.Decoder(list[ToRunner])

packed = _encoder.encode
"""A list of messages as one frame."""


def from_runner(frame: bytes) -> list[FromRunner]:
    """The messages in a frame of a runner; raises FrameFault."""
    return _decoded(_from_runner, frame)


def from_engine(frame: bytes) -> list[ToRunner]:
    """The messages in a frame of the engine; raises FrameFault."""
    return _decoded(_from_engine, frame)


def _decoded(decoder: msgspec.msgpack.Decoder[list], frame: bytes) -> list:  # type: ignore[type-arg]
    if len(frame) > FRAME_MAX:
        raise FrameFault(f"a frame of {len(frame):,} bytes; the most is {FRAME_MAX:,}")
    try:
        return decoder.decode(frame)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FrameFault(f"no frame of {PROTOCOL}: {error}") from None
