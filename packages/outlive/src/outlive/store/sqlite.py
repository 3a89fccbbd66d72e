"""One file: SQLite with a write-ahead log, a sync for each group of commits, one writer.

Rows are written where the engine runs and only COMMIT, which waits for the disk, in a thread. The
file is locked for as long as it is open: a second engine on it is refused. After anything went
wrong in a group the connection is given up, since nobody can say what reached the disk; opening
again reads what did, and syncs it before anything is built on it.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import apsw

from outlive.store.api import Commit, Due, Item, Key, Record, StoreBusy, StoreFault
from outlive.store.thread import DiskThread

__all__ = ["MIGRATIONS", "Migration", "SqliteStore"]

T = TypeVar("T")

APPLICATION_ID: Final = 0x6F75746C
"""`outl`: what a file of ours says it is."""


class Migration(NamedTuple):
    """Brings a file of one version to the next."""

    name: str
    sql: str


MIGRATIONS: Final = (
    Migration(
        "records and entries",
        # A record's number is never given twice, or a page that goes on after it would miss one.
        # Entries are an ordinary rowid table: without a rowid its commits cost 2.7 times as much.
        """
        CREATE TABLE records (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            kind TEXT NOT NULL,
            key TEXT NOT NULL,
            version INTEGER NOT NULL,
            body BLOB NOT NULL,
            due_ms INTEGER,
            tag TEXT NOT NULL
        ) STRICT;
        CREATE UNIQUE INDEX records_by_key ON records (kind, key);
        CREATE INDEX records_by_tag ON records (kind, tag, number);
        CREATE INDEX records_by_due ON records (due_ms) WHERE due_ms IS NOT NULL;
        CREATE TABLE entries (
            run_no INTEGER NOT NULL,
            seq INTEGER NOT NULL,
            body BLOB NOT NULL,
            PRIMARY KEY (run_no, seq)
        ) STRICT;
        """,
    ),
)
"""Number n brings a file of version n to version n + 1. Never changed, only added to."""

CACHE_KIB: Final = 64 << 10
CHECKPOINT_PAGES: Final = 4096
"""Pages in the log from which on they are moved into the file, in the thread that commits."""
LOG_BYTES: Final = 64 << 20
"""What the log is cut back to after a group that needed more."""
BUSY_TRIES: Final = 10
BUSY_PAUSE_S: Final = 0.05

VERSION_OF: Final = "SELECT version FROM records WHERE kind = ? AND key = ?"
PUT: Final = """
    INSERT INTO records (kind, key, version, body, due_ms, tag) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (kind, key) DO UPDATE SET
        version = excluded.version, body = excluded.body, due_ms = excluded.due_ms,
        tag = excluded.tag
"""
DROP: Final = "DELETE FROM records WHERE kind = ? AND key = ?"
APPEND: Final = "INSERT INTO entries (run_no, seq, body) VALUES (?, ?, ?)"
LOAD: Final = (
    "SELECT kind, key, version, body, due_ms, tag, number FROM records WHERE kind = ? AND key = ?"
)
ENTRIES: Final = "SELECT body FROM entries WHERE run_no = ? AND seq > ? ORDER BY seq"
DUE: Final = (
    "SELECT due_ms, kind, key FROM records WHERE due_ms <= ? AND due_ms IS NOT NULL "
    "ORDER BY due_ms, number LIMIT ?"
)
NEXT_DUE: Final = "SELECT min(due_ms) FROM records WHERE due_ms IS NOT NULL"
PAGE: Final = """
    SELECT kind, key, version, body, due_ms, tag, number FROM records
    WHERE kind = ? AND number > ? ORDER BY number LIMIT ?
"""
PAGE_OF_TAG: Final = """
    SELECT kind, key, version, body, due_ms, tag, number FROM records
    WHERE kind = ? AND tag = ? AND number > ? ORDER BY number LIMIT ?
"""


class SqliteStore:
    """See `Store`. `path` is the file; `vfs` another layer below SQLite, for tests."""

    def __init__(self, path: Path, *, vfs: str | None = None) -> None:
        self._path = path
        self._vfs = vfs
        self._connection: apsw.Connection | None = None
        self._lock = asyncio.Lock()
        self._thread: DiskThread | None = None
        """What waits for the disk, one after another: opening, COMMIT, closing."""

    async def open(self) -> None:
        """See `Store`. A new file is made; its folder is not."""
        async with self._lock:
            if self._connection is None:
                self._connection = await self._in_thread(self._connect)

    async def close(self) -> None:
        """See `Store`."""
        async with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                await self._in_thread(_close, connection)
            thread, self._thread = self._thread, None
            if thread is not None:
                # Ends what was given up, too: the file is free on return.
                await asyncio.to_thread(thread.end)

    async def apply(self, batch: Sequence[Commit]) -> Sequence[bool]:
        """See `Store`."""
        async with self._lock:
            connection = self._open()
            try:
                connection.execute("BEGIN IMMEDIATE")
                before = connection.total_changes()
                made = [_try(connection, commit) for commit in batch]
                if connection.total_changes() == before:
                    connection.execute("COMMIT")  # nothing to wait for
                else:
                    await self._in_thread(connection.execute, "COMMIT")
            except BaseException as error:
                self._give_up(connection)
                # What is not SQLite's (a key that is no UTF-8, a number beyond 64 bits) is the
                # caller's defect; but whoever waits for this group has to be told all the same.
                if isinstance(error, Exception):
                    raise self._fault(error) from error
                raise
            return made

    async def load(self, keys: Sequence[Key]) -> list[Record | None]:
        """See `Store`."""

        def read(connection: apsw.Connection) -> list[Record | None]:
            found: list[Record | None] = []
            for key in keys:
                row = next(connection.execute(LOAD, key), None)
                found.append(None if row is None else _record(row))
            return found

        return await self._read(read)

    async def entries(self, run_no: int, after: int = -1) -> list[bytes]:
        """See `Store`."""
        return await self._read(
            lambda connection: [body for (body,) in connection.execute(ENTRIES, (run_no, after))]
        )

    async def due(self, until_ms: int, limit: int) -> list[Due]:
        """See `Store`."""
        return await self._read(
            lambda connection: [Due(*row) for row in connection.execute(DUE, (until_ms, limit))]
        )

    async def next_due(self) -> int | None:
        """See `Store`."""
        return await self._read(lambda connection: next(connection.execute(NEXT_DUE))[0])

    async def page(self, kind: str, tag: str | None, after: int, limit: int) -> list[Record]:
        """See `Store`."""

        def read(connection: apsw.Connection) -> list[Record]:
            if tag is None:
                rows = connection.execute(PAGE, (kind, after, limit))
            else:
                rows = connection.execute(PAGE_OF_TAG, (kind, tag, after, limit))
            return [_record(row) for row in rows]

        return await self._read(read)

    async def _read(self, read: Callable[[apsw.Connection], T]) -> T:
        async with self._lock:  # not beside a COMMIT: what is shown is durable
            try:
                return read(self._open())
            except apsw.Error as error:
                raise self._fault(error) from error

    # --- opening and giving up ---

    def _open(self) -> apsw.Connection:
        if self._connection is None:
            raise StoreFault(f"{self._path} is not open")
        return self._connection

    async def _in_thread(self, call: Callable[..., T], *args: Any) -> T:
        if self._thread is None:
            self._thread = DiskThread("outlive-store")
        return await self._thread.call(call, *args)

    def _give_up(self, connection: apsw.Connection) -> None:
        """Close it behind a COMMIT that may still be on its way if whoever waited was cancelled."""
        self._connection = None
        assert self._thread is not None
        self._thread.leave(_close, connection)

    def _connect(self) -> apsw.Connection:
        try:
            for _ in range(BUSY_TRIES):
                try:
                    return self._connect_once()
                except apsw.BusyError:
                    # Engines that start in one moment see each other's first lock and would all
                    # give way; after a different pause for each, one is alone.
                    time.sleep(random.uniform(0.1, 1) * BUSY_PAUSE_S)
            return self._connect_once()
        except apsw.BusyError:
            raise StoreBusy(
                f"{self._path} is open in another process: one file has one engine; stop that one "
                "or use PostgreSQL for several"
            ) from None
        except apsw.Error as error:
            raise self._fault(error) from error

    def _connect_once(self) -> apsw.Connection:
        connection = apsw.Connection(str(self._path.absolute()), vfs=self._vfs)
        try:
            # Before the first look at the file, which takes the lock that is then kept.
            connection.pragma("locking_mode", "EXCLUSIVE")
            # A file that is not ours stays as it is, down to its log.
            log = Path(f"{self._path}-wal")
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(log.exists()))
            version = self._version(connection)
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
            connection.pragma("temp_store", "MEMORY")
            connection.pragma("journal_mode", "WAL")
            connection.pragma("synchronous", "FULL")
            connection.pragma("cache_size", -CACHE_KIB)
            connection.pragma("wal_autocheckpoint", CHECKPOINT_PAGES)
            connection.pragma("journal_size_limit", LOG_BYTES)
            self._migrate(connection, version)
            # After a sync that failed, what the log reads like may not be on the disk; and what
            # comes after it in the log would be lost with it.
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except BaseException:
            _close(connection)
            raise
        return connection

    def _version(self, connection: apsw.Connection) -> int:
        if connection.readonly("main"):
            raise apsw.ReadOnlyError("it can only be read")
        identity: int = connection.pragma("application_id")
        version: int = connection.pragma("user_version")
        (tables,) = next(connection.execute("SELECT count(*) FROM sqlite_schema"))
        if identity != APPLICATION_ID and (identity or version or tables):
            raise StoreFault(
                f"{self._path} is another program's database (application id {identity:#x}, "
                f"version {version}, {tables} tables and indexes): name another file"
            )
        if version > len(MIGRATIONS):
            raise StoreFault(
                f"{self._path} is of version {version}, and this outlive knows up to "
                f"{len(MIGRATIONS)}: use the one that made it, or a newer one"
            )
        return version

    def _migrate(self, connection: apsw.Connection, version: int) -> None:
        if version == len(MIGRATIONS):
            return
        connection.execute("BEGIN IMMEDIATE")
        for migration in MIGRATIONS[version:]:
            try:
                connection.execute(migration.sql)
            except apsw.SQLError as error:
                raise StoreFault(
                    f"{self._path} cannot be brought from version {version} to "
                    f"{len(MIGRATIONS)}, it stays as it is: {migration.name}: {error}"
                ) from error
        connection.pragma("application_id", APPLICATION_ID)
        connection.pragma("user_version", len(MIGRATIONS))
        connection.execute("COMMIT")

    def _fault(self, error: Exception) -> StoreFault:
        for kind, remedy in _REMEDIES:
            if isinstance(error, kind):
                return StoreFault(f"{self._path}: {error}: {remedy}")
        return StoreFault(f"{self._path}: {error!r}")


_REMEDIES: Final[tuple[tuple[type[Exception], str], ...]] = (
    (apsw.FullError, "make room on its disk"),
    (apsw.ReadOnlyError, "let this user write the file and its folder"),
    (apsw.CantOpenError, "name a file, in a folder that is there and that this user may write"),
    (apsw.NotADBError, "it is none of outlive's, or damaged; name another, or put a backup back"),
    (apsw.CorruptError, "it is damaged; put a backup back"),
    (apsw.IOError, "see to its disk"),
)


_THERE: Final = {apsw.SQLITE_CONSTRAINT_PRIMARYKEY, apsw.SQLITE_CONSTRAINT_UNIQUE}


def _try(connection: apsw.Connection, commit: Commit) -> bool:
    execute = connection.execute
    for expect in commit.expect:
        row = next(execute(VERSION_OF, expect[:2]), None)
        if (0 if row is None else row[0]) != expect.version:
            return False
    # With its expectations met, only an entry that is there already can refuse a commit; and what
    # is one statement is whole without a savepoint.
    append = commit.append
    guarded = len(append) > 1 or bool(append and (commit.put or commit.drop))
    if guarded:
        execute("SAVEPOINT one")
    for record in commit.put:
        execute(PUT, record[:6])
    for gone in commit.drop:
        execute(DROP, gone)
    made = _append(execute, append)
    if guarded:
        if not made:
            execute("ROLLBACK TO one")
        execute("RELEASE one")
    return made


def _append(execute: Callable[..., object], items: Sequence[Item]) -> bool:
    try:
        for item in items:
            execute(APPEND, item)
    except apsw.ConstraintError as error:
        if getattr(error, "extendedresult", None) in _THERE:
            return False
        raise
    return True


def _close(connection: apsw.Connection) -> None:
    # What was answered is durable, whatever this says.
    with contextlib.suppress(apsw.Error):
        connection.close(True)


def _record(row: tuple[Any, ...]) -> Record:
    return Record(*row)
