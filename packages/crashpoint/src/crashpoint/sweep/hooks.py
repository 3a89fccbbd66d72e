"""Points that a program makes without knowing: renames and in-place writes below a folder.

While `watching`, `os.replace`, `os.rename` and files opened for writing announce themselves, so that
a program's own way of saving can be swept as it is. What happens elsewhere is none of our business.
"""

from __future__ import annotations

import builtins
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from crashpoint.inside.points import Crash, allow, current, point

__all__ = ["watching"]

WRITES: Final = frozenset("wax+")
_raw_open = io.open


@contextmanager
def watching(folder: str) -> Iterator[None]:
    """Announce `tmp` and `renamed` around renames to, and `truncated` and `written` around files
    opened for writing under, the folder; a dead process's are refused.
    """
    within = os.path.join(os.path.realpath(folder), "")

    def inside(path: Any) -> bool:
        try:
            return os.path.realpath(os.fsdecode(path)).startswith(within)
        except TypeError:
            return False  # a descriptor: somebody opened it before

    before = (os.replace, os.rename, io.open, builtins.open)
    os.replace = _renaming(os.replace, inside)
    os.rename = _renaming(os.rename, inside)
    io.open = builtins.open = _opening(io.open, inside)
    try:
        yield
    finally:
        os.replace, os.rename, io.open, builtins.open = before


def _renaming(rename: Callable[..., None], inside: Callable[[Any], bool]) -> Callable[..., None]:
    def call(source: Any, target: Any, **options: Any) -> None:
        if not inside(target):
            rename(source, target, **options)
            return
        allow()
        name = os.path.basename(os.fsdecode(target))
        point("tmp", name)
        rename(source, target, **options)
        point("renamed", name)

    return call


def _opening(opener: Callable[..., Any], inside: Callable[[Any], bool]) -> Callable[..., Any]:
    def call(file: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
        if WRITES.isdisjoint(mode) or not inside(file):
            return opener(file, mode, *args, **options)
        allow()
        opened = opener(file, mode, *args, **options)
        opened.close = _closing(opened, os.path.basename(os.fsdecode(file)))
        if "w" in mode:
            point("truncated", os.path.basename(os.fsdecode(file)))
        return opened

    return call


def _closing(opened: Any, name: str) -> Callable[[], None]:
    close, owner = opened.close, current()

    def closing() -> None:
        if opened.closed:
            return
        try:
            if owner is not None:
                owner.allow()
        except Crash:
            # What was buffered died with the process; closing must not write it now.
            with _raw_open(os.devnull, "wb") as nowhere:
                os.dup2(nowhere.fileno(), opened.fileno())
            close()
            if current() is owner:
                raise
            return
        close()
        point("written", name)

    return closing
