"""SQLite connections that announce their commits: what is committed outlives the process."""

from __future__ import annotations

import sqlite3
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from types import TracebackType
from typing import Any, Final, Literal, TypeVar

from crashpoint.inside.points import allow, point

__all__ = ["WatchedConnection", "watched"]

DEFINES: Final = ("create", "drop", "alter", "vacuum")
"""First words of statements that change a database and no row of it."""

T = TypeVar("T")


class WatchedConnection(sqlite3.Connection):
    """Passes the point `committed` after each commit, those included that SQLite does unasked."""

    crashpoint_name: str = ""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._cursors: weakref.WeakSet[sqlite3.Cursor] = weakref.WeakSet()

    def close(self) -> None:
        """As in sqlite3, at once: a cursor that lives on would keep the files open till it dies."""
        for cursor in list(self._cursors):
            with suppress(sqlite3.Error):  # another thread's, or none any more
                cursor.close()
        super().close()

    def commit(self) -> None:
        """As in sqlite3."""
        _announcing(self, super().commit)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> Literal[False]:
        if kind is None:
            try:
                self.commit()
            except sqlite3.Error:
                self.rollback()
                raise
        else:
            self.rollback()
        return False

    def cursor(self, factory: Any = sqlite3.Cursor) -> Any:
        """As in sqlite3."""
        cursor = super().cursor(_watched_cursor(factory))
        self._cursors.add(cursor)
        return cursor

    def execute(self, sql: str, *args: Any) -> Any:
        """As in sqlite3."""
        return self.cursor().execute(sql, *args)

    def executemany(self, sql: str, *args: Any) -> Any:
        """As in sqlite3."""
        return self.cursor().executemany(sql, *args)

    def executescript(self, script: str) -> Any:
        """As in sqlite3."""
        return self.cursor().executescript(script)


@cache
def watched(factory: Any) -> Any:
    """The factory's connections, watched."""
    if not isinstance(factory, type) or issubclass(factory, WatchedConnection):
        return factory
    if factory is sqlite3.Connection:
        return WatchedConnection
    return type(factory.__name__, (WatchedConnection, factory), {})


@cache
def _watched_cursor(factory: Any) -> Any:
    class WatchedCursor(factory):  # type: ignore[misc]
        def execute(self, sql: str, *args: Any) -> Any:
            run = super().execute
            return _announcing(self.connection, lambda: run(sql, *args), sql)

        def executemany(self, sql: str, *args: Any) -> Any:
            run = super().executemany
            return _announcing(self.connection, lambda: run(sql, *args), sql)

        def executescript(self, script: str) -> Any:
            run = super().executescript
            return _announcing(self.connection, lambda: run(script), script)

    return WatchedCursor


def _announcing(connection: Any, run: Callable[[], T], sql: str = "") -> T:
    allow()
    was_open, changes = connection.in_transaction, connection.total_changes
    result = run()
    defines = sql.lstrip().lower().startswith(DEFINES)
    has_changed = was_open or defines or connection.total_changes != changes
    if has_changed and not connection.in_transaction:
        point("committed", connection.crashpoint_name)
    return result
