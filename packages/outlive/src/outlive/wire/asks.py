"""What a run can ask the engine for, by kind; each is met by one entry of the run's record."""

from __future__ import annotations

from typing import Final

import msgspec

__all__ = [
    "ASKS",
    "Approve",
    "Child",
    "Emit",
    "Event",
    "Mark",
    "Sleep",
    "What",
    "read",
]


class _What(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class Sleep(_What, frozen=True):
    """Until an instant, or for a while from when the engine has stored it."""

    until_ms: int | None = None
    for_ms: int | None = None


class Event(_What, frozen=True):
    """The first event of a name, sent after the run began, whose members are as in `match`."""

    name: str
    match: dict[str, bytes] = {}
    """Dotted path in the event's data -> encoded value that must stand there."""
    for_ms: int | None = None
    """How long; None: for ever. Met with ok=False when over."""


class Emit(_What, frozen=True):
    """Send an event, once for its id."""

    name: str
    id: str
    data: bytes


class Child(_What, frozen=True):
    """Start another run and wait for its end."""

    workflow: str
    input: bytes
    detached: bool = False


class Approve(_What, frozen=True):
    """Ask a person. `digest` binds the answer to the exact tool and arguments shown."""

    title: str
    details: bytes
    digest: str
    for_ms: int | None = None


class Mark(_What, frozen=True):
    """An attempt at an effect is about to go out."""

    key: str
    dialect: str
    digest: str = ""
    trial: int = 0


What = Sleep | Event | Emit | Child | Approve | Mark

ASKS: Final[dict[str, type[_What]]] = {
    "sleep": Sleep,
    "event": Event,
    "emit": Emit,
    "child": Child,
    "approve": Approve,
    "mark": Mark,
}
"""Kind -> what it is about."""

_DECODERS: Final = {kind: msgspec.msgpack.Decoder(about) for kind, about in ASKS.items()}


def read(kind: str, about: bytes) -> What:
    """The struct; raises ValueError for an unknown kind or another shape."""
    decoder = _DECODERS.get(kind)
    if decoder is None:
        raise ValueError(f"no kind of wait {kind!r}; there are {', '.join(ASKS)}")
    try:
        return decoder.decode(about)  # type: ignore[return-value]
    except msgspec.MsgspecError as error:
        raise ValueError(f"{kind}: {error}") from None
