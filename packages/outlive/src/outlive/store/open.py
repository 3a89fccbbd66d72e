"""Which store an address means."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from outlive.store.api import Store, StoreFault
from outlive.store.memory import MemoryStore

__all__ = ["open_store"]

SQLITE: Final = "sqlite:///"
MEMORY: Final = "memory:"


def open_store(address: str) -> Store:
    """The store at `sqlite:///PATH`, or a new one at `memory:`; raises StoreFault for others.

    As in SQLAlchemy's addresses, three slashes begin a relative path and four an absolute one.
    """
    if address == MEMORY:
        return MemoryStore()
    if not address.startswith(SQLITE) or address == SQLITE:
        raise StoreFault(
            f"--store {address!r} is no store: write sqlite:///PATH (sqlite:////PATH from the "
            f"root), or {MEMORY} for one that ends with the engine"
        )
    from outlive.store.sqlite import SqliteStore

    path = Path(address.removeprefix(SQLITE))
    if not path.parent.is_dir():
        raise StoreFault(f"--store {address}: there is no folder {path.parent}; make it first")
    return SqliteStore(path)
