"""What the engine asks of a store: compare, swap, append, all of a commit or nothing, durably.

A record has a kind, a key and a version that grows by one with each change; 0 is that of a record
which is not there. A run's entries are kept apart, in order, and never change. The engine decides
what to write; the store only refuses what was decided about an older state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

__all__ = [
    "Commit",
    "Due",
    "Expect",
    "Item",
    "Key",
    "Record",
    "Store",
    "StoreBusy",
    "StoreFault",
]


class Key(NamedTuple):
    """What names a record."""

    kind: str
    key: str


class Expect(NamedTuple):
    """The version a record must have for a commit to be made; 0: it must not be there."""

    kind: str
    key: str
    version: int


class Record(NamedTuple):
    """`due_ms` files it under an instant, `tag` under a text; both are for finding it again."""

    kind: str
    key: str
    version: int
    body: bytes
    due_ms: int | None = None
    tag: str = ""
    number: int = 0
    """Set by the store: greater than that of each record ever made before. It stays when the record
    is put again, and is what pages are ordered by."""


class Item(NamedTuple):
    """An entry of a run's record. No two of a run have one `seq`."""

    run_no: int
    seq: int
    body: bytes


class Due(NamedTuple):
    """A record that is filed under an instant."""

    due_ms: int
    kind: str
    key: str


@dataclass(frozen=True, slots=True)
class Commit:
    """All of this, or nothing of it: in the order of the fields, and of what is in them.

    It is refused if a version is not as expected, or if there is an entry with a `seq` already.
    """

    expect: tuple[Expect, ...] = ()
    put: tuple[Record, ...] = ()
    """Each with the version it has from now on."""
    drop: tuple[Key, ...] = ()
    append: tuple[Item, ...] = ()


class StoreFault(RuntimeError):
    """Nobody can say what is durable: reopen and load again before anything is answered."""


class StoreBusy(StoreFault):
    """Another engine has this store."""


class Store(Protocol):
    """One call at a time: what is called while another is busy waits for it.

    All but `open` and `close` raise StoreFault while it is not open.
    """

    async def open(self) -> None:
        """Make it ready, with the tables of this version; nothing if it is.

        Raises StoreFault, StoreBusy.
        """
        ...

    async def close(self) -> None:
        """Let go of it; may be opened again."""
        ...

    async def apply(self, batch: Sequence[Commit]) -> Sequence[bool]:
        """Try each in order; True for those made. All of them are durable on return.

        Raises StoreFault when it is unknown whether they are.
        """
        ...

    async def load(self, keys: Sequence[Key]) -> list[Record | None]:
        """Durable records, in the order of the keys."""
        ...

    async def entries(self, run_no: int, after: int = -1) -> list[bytes]:
        """Bodies of the run's entries with a greater `seq`, in order."""
        ...

    async def due(self, until_ms: int, limit: int) -> list[Due]:
        """Records due at the instant or before it, by instant and then by number."""
        ...

    async def next_due(self) -> int | None:
        """The earliest instant a record is filed under, if there is one."""
        ...

    async def page(self, kind: str, tag: str | None, after: int, limit: int) -> list[Record]:
        """Records of a kind (and tag), with a `number` greater than `after`, by number."""
        ...
