"""Batches whose every trace can be checked, and a process that applies them until it is killed.

`python store_batches.py FILE` prints `opening`, then `at N` (batches that are there), then the
number of each batch once it is acknowledged, until it is killed or the store fails. With a second
argument it opens the file only when it is sent a line.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from outlive.store.api import Commit, Expect, Item, Key, Record, Store, StoreFault
from outlive.store.sqlite import SqliteStore

KEPT = 3


def _body(n: int) -> bytes:
    return (b"%d " % n) * (20_000 if n % 7 == 3 else 40)


def batch(n: int) -> list[Commit]:
    """Batch `n`, which can be made only after the one before it; its third commit is refused."""
    return [
        Commit(
            expect=(Expect("count", "", n),),
            put=(Record("count", "", n + 1, b"%d" % n),),
            append=(Item(1, n, _body(n)),),
        ),
        Commit(
            put=(Record("run", str(n), 1, _body(n), due_ms=n, tag="t"),),
            drop=(Key("run", str(n - KEPT)),),
            append=tuple(Item(2, 3 * n + k, b"%d.%d" % (n, k)) for k in range(3)),
        ),
        Commit(
            put=(Record("spoilt", str(n), 1, b""), Record("count", "", 0, b"spoilt")),
            append=(Item(3, n, b"spoilt"), Item(1, n, b"spoilt")),
        ),
    ]


async def apply(store: Store, n: int) -> None:
    """Apply batch `n`; acknowledged on return."""
    assert await store.apply(batch(n)) == [True, True, False]


async def whole(store: Store) -> int:
    """How many batches are there, each of them whole and nothing else."""
    (count,) = await store.load([Key("count", "")])
    n = count.version if count else 0
    assert await store.entries(1) == [_body(k) for k in range(n)]
    assert await store.entries(2) == [b"%d.%d" % (k, j) for k in range(n) for j in range(3)]
    assert await store.entries(3) == await store.page("spoilt", None, 0, 10) == []
    runs = await store.page("run", "t", 0, 100)
    assert [(run.key, run.body) for run in runs] == [
        (str(k), _body(k)) for k in range(max(0, n - KEPT), n)
    ]
    due = await store.due(1 << 60, 100)
    assert [(at, key) for at, _, key in due] == [(k, str(k)) for k in range(max(0, n - KEPT), n)]
    return n


async def write(store: Store, until: int = 1 << 60) -> None:
    """Say what happens, as above."""
    print("opening", flush=True)
    await store.open()
    n = await whole(store)
    print("at", n, flush=True)
    while n < until:
        await apply(store, n)
        print(n, flush=True)
        n += 1


if __name__ == "__main__":
    if len(sys.argv) > 2:
        print("ready", flush=True)
        sys.stdin.readline()
    try:
        asyncio.run(write(SqliteStore(Path(sys.argv[1]))))
    except StoreFault as fault:
        print(type(fault).__name__, fault, flush=True)
        sys.stdin.read()  # with what failed still open
