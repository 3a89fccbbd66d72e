"""Points that a program makes without knowing: whatever it changes in the files below a folder.

While `watching`, renames, writes, new and removed files and commits of SQLite announce themselves,
so that a program's own way of saving can be swept as it is. What happens elsewhere is not watched.
"""
# ruff: noqa: PTH100, PTH115, PTH118, PTH119

from __future__ import annotations

import builtins
import io
import os
import re
import sqlite3
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final

from crashpoint.inside.points import Crash, allow, current, point
from crashpoint.sweep.database import WatchedConnection, watched

__all__ = ["Watch", "watching"]

WRITES: Final = frozenset("wax+")
DRAWN: Final = re.compile(
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"  # a UUID
    r"|(?<![0-9A-Za-z])[0-9a-fA-F]{6,}(?![0-9A-Za-z])"  # of a digest, a token
    r"|[0-9]{2,}"  # a process id, a time stamp
)
"""Parts of file names that may be other ones in each process: a point's name goes without."""


@contextmanager
def watching(folder: str = "") -> Iterator[Watch]:
    """Announce what changes below the folder (see KINDS); refuse what a dead process changes.

    Without a folder nothing is watched before `Watch.turn_to`.
    """
    watch = Watch(folder)
    patches = [
        (owner, name, getattr(owner, name), make(getattr(owner, name)))
        for owner, name, make in watch.hooks()
    ]
    for owner, name, _, hook in patches:
        setattr(owner, name, hook)
    try:
        yield watch
    finally:
        for owner, name, original, _ in patches:
            setattr(owner, name, original)


class Watch:
    """The hooks over one folder, and what the program has open there."""

    def __init__(self, folder: str) -> None:
        self.turn_to(folder)
        self._files: weakref.WeakSet[Any] = weakref.WeakSet()
        self._databases: weakref.WeakSet[WatchedConnection] = weakref.WeakSet()
        self._descriptors: set[int] = set()
        self._temporary: set[str] = set()
        self._has_opened = False

    def turn_to(self, folder: str) -> None:
        """Watch this folder from now on."""
        self._within = os.path.join(os.path.realpath(folder), "") if folder else "\0"

    def let_go(self) -> None:
        """Close what is open, as the kernel does when a process ends.

        What a dead process has not written yet stays unwritten: its files refuse it.
        """
        if not self._has_opened:
            return
        self._has_opened = False
        for file in list(self._files):
            with suppress(Crash, OSError, ValueError):
                file.close()
        for database in list(self._databases):
            with suppress(sqlite3.Error):  # another thread's cannot be closed from here
                WatchedConnection.close(database)
        for descriptor in self._descriptors:
            if self._name(descriptor) is not None:  # else closed, and perhaps somebody else's now
                with suppress(OSError):
                    os.close(descriptor)
        self._files.clear()
        self._databases.clear()
        self._descriptors.clear()

    def hooks(self) -> Iterator[tuple[Any, str, Callable[[Any], Callable[..., Any]]]]:
        """Where each hook belongs: module, name, and what makes it from the original."""
        yield io, "open", self._opening
        yield builtins, "open", self._opening
        yield os, "open", self._opening_descriptor
        yield sqlite3, "connect", self._connecting
        yield sqlite3.dbapi2, "connect", self._connecting
        for name in ("replace", "rename"):
            yield os, name, self._renaming
        for name in ("write", "pwrite", "writev", "pwritev", "sendfile"):
            yield os, name, partial(self._changing, "written")
        for name in ("truncate", "ftruncate"):
            yield os, name, partial(self._changing, "truncated")
        for name in ("unlink", "remove", "rmdir"):
            yield os, name, partial(self._changing, "removed")
        yield os, "mkdir", partial(self._changing, "created")
        for name in ("symlink", "link"):
            yield os, name, self._linking

    def _name(self, path: Any, dir_fd: int | None = None) -> str | None:
        """A file's name without what is drawn anew; None if it does not lie below the folder."""
        try:
            if isinstance(path, int):
                path = os.readlink(f"/proc/self/fd/{path}")
                if not path.startswith("/"):
                    return None  # a pipe or a socket
            elif dir_fd is not None:
                path = os.path.join(f"/proc/self/fd/{dir_fd}", path)
            whole = os.path.abspath(os.fsdecode(path))
            if not whole.startswith(self._within):
                whole = os.path.realpath(whole)
        except (OSError, TypeError, ValueError):
            return None
        if not whole.startswith(self._within):
            return None
        name = os.path.basename(whole)
        return "tmp*" if name in self._temporary else DRAWN.sub("*", name)

    def _note_temporary(self, path: Any) -> None:
        """Remember a name that `tempfile` has drawn."""
        if sys._getframe(2).f_globals.get("__name__") == "tempfile":  # noqa: SLF001
            self._temporary.add(os.path.basename(os.fsdecode(path)))

    def _changing(self, kind: str, change: Callable[..., Any]) -> Callable[..., Any]:
        """Of functions whose first argument says what is changed."""

        def call(what: Any, *args: Any, dir_fd: int | None = None, **options: Any) -> Any:
            if dir_fd is not None:
                options["dir_fd"] = dir_fd
            name = None if current() is None else self._name(what, dir_fd)
            if name is None:
                return change(what, *args, **options)
            allow()
            if kind == "created":
                self._note_temporary(what)
                name = self._name(what, dir_fd) or name
            done = change(what, *args, **options)
            point(kind, name)
            return done

        return call

    def _linking(self, link: Callable[..., None]) -> Callable[..., None]:
        def call(source: Any, target: Any, *args: Any, **options: Any) -> None:
            name = None if current() is None else self._name(target)
            if name is None:
                link(source, target, *args, **options)
                return
            allow()
            link(source, target, *args, **options)
            point("created", name)

        return call

    def _renaming(self, rename: Callable[..., None]) -> Callable[..., None]:
        def call(source: Any, target: Any, **options: Any) -> None:
            name = gone = None
            if current() is not None:
                name = self._name(target, options.get("dst_dir_fd"))
                gone = self._name(source, options.get("src_dir_fd"))
            if name is None and gone is None:
                rename(source, target, **options)
                return
            allow()
            if name is not None:
                point("tmp", name)
            rename(source, target, **options)
            point(*(("removed", gone or "") if name is None else ("renamed", name)))

        return call

    def _opening(self, opener: Callable[..., Any]) -> Callable[..., Any]:
        def call(file: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
            name = None if current() is None else self._name(file)
            if name is None:
                return opener(file, mode, *args, **options)
            writes = not WRITES.isdisjoint(mode)
            if writes:
                allow()
            opened = opener(file, mode, *args, **options)
            self._files.add(opened)
            self._has_opened = True
            if not writes:
                return opened
            # The program's `opener` opens the file itself, and by its own name.
            is_ours = not isinstance(file, int) and options.get("opener") is None
            self._watch_writes(opened, name if is_ours else self._name(opened.fileno()) or name)
            kind = "truncated" if "w" in mode else "created" if "x" in mode else ""
            if is_ours and kind:
                with _closing_on_error(opened.close):
                    point(kind, name)
            return opened

        return call

    def _watch_writes(self, opened: Any, name: str) -> None:
        """Announce when bytes get into the file, not when the program puts them into a buffer."""
        buffered = getattr(opened, "buffer", opened)
        raw = getattr(buffered, "raw", buffered)
        if not isinstance(raw, io.FileIO):
            return
        descriptor, owner = raw.fileno(), current()

        def write(data: Any) -> int:
            if owner is not None:
                owner.allow()
            done = _write(descriptor, data)
            if current() is owner:
                point("written", name)
            return done

        def truncate(size: int | None = None) -> int:
            if owner is not None:
                owner.allow()
            wanted = os.lseek(descriptor, 0, os.SEEK_CUR) if size is None else size
            _ftruncate(descriptor, wanted)
            if current() is owner:
                point("truncated", name)
            return wanted

        raw.write = write  # type: ignore[method-assign]
        raw.truncate = truncate  # type: ignore[method-assign]

    def _opening_descriptor(self, opener: Callable[..., int]) -> Callable[..., int]:
        def call(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
            name = None if current() is None else self._name(path, dir_fd)
            if name is None:
                return opener(path, flags, mode, dir_fd=dir_fd)
            if flags & CHANGES:
                allow()
            if flags & os.O_EXCL:
                self._note_temporary(path)
                name = self._name(path, dir_fd) or name
            is_new = bool(flags & os.O_CREAT) and not _is_there(path, dir_fd)
            descriptor = opener(path, flags, mode, dir_fd=dir_fd)
            self._descriptors.add(descriptor)
            self._has_opened = True
            kind = "truncated" if flags & os.O_TRUNC else "created" if is_new else ""
            if kind:
                with _closing_on_error(partial(os.close, descriptor)):
                    point(kind, name)
            return descriptor

        return call

    def _connecting(self, connect: Callable[..., Any]) -> Callable[..., Any]:
        def call(database: Any, *args: Any, **options: Any) -> Any:
            file = database
            if options.get("uri") and isinstance(database, str):
                file = database.removeprefix("file:").partition("?")[0]
            name = None
            if current() is not None and file not in {"", ":memory:", b":memory:"}:
                name = self._name(file)
            if name is None or len(args) > FACTORY:
                return connect(database, *args, **options)
            allow()
            factory = watched(options.pop("factory", sqlite3.Connection))
            opened = connect(database, *args, factory=factory, **options)
            opened.crashpoint_name = name
            self._databases.add(opened)
            self._has_opened = True
            return opened

        return call


CHANGES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
FACTORY: Final = 4
"""Positional arguments of `sqlite3.connect` between the database and the factory."""

# Bound here, because they are hooked.
_write = os.write
_ftruncate = os.ftruncate


@contextmanager
def _closing_on_error(close: Callable[[], Any]) -> Iterator[None]:
    """For what was opened and will not reach the program."""
    try:
        yield
    except BaseException:
        close()
        raise


def _is_there(path: Any, dir_fd: int | None) -> bool:
    try:
        os.lstat(path, dir_fd=dir_fd)
    except OSError:
        return False
    return True
