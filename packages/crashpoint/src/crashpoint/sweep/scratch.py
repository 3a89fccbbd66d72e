"""Where sweeps put their files; what a killed sweep in its own process left, the next removes."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

__all__ = ["clear", "memory_folder", "scratch_folder"]

DEAD_S: Final = 60.0
"""A sweep that runs changes its folder more often than that."""
FREE_MIN: Final = 512 << 20
"""Bytes; containers are often given 64 MB, which a sweep's ledger can fill."""
_mine: set[str] = set()


def memory_folder() -> str | None:
    """Where files cost no disk: a killed process keeps the page cache anyway. None: the default."""
    try:
        state = os.statvfs("/dev/shm")  # noqa: S108  folders are made in it by mkdtemp or as private
    except OSError:
        return None
    return "/dev/shm" if state.f_bavail * state.f_frsize >= FREE_MIN else None  # noqa: S108


@contextmanager
def scratch_folder(parent: str | None) -> Iterator[Path]:
    """A new folder below `parent` (None: where temporary files go), removed at the end."""
    _remove_of_the_dead(parent or tempfile.gettempdir())
    folder = tempfile.mkdtemp(prefix=f"crashpoint-{os.getpid()}-", dir=parent)
    _mine.add(folder)
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        _mine.discard(folder)


def clear() -> None:
    """Remove the folders of this process now: it ends without another word."""
    for folder in _mine:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_of_the_dead(parent: str) -> None:
    with os.scandir(parent) as entries:
        found = [(entry, re.fullmatch(r"crashpoint-(\d+)-\w{8}", entry.name)) for entry in entries]
    for entry, named in found:
        if named and not Path(f"/proc/{named[1]}").exists():
            with suppress(FileNotFoundError):
                # Old as well: a process of another container may be running though it is not here.
                if time.time() - entry.stat().st_mtime > DEAD_S:
                    shutil.rmtree(entry.path, ignore_errors=True)
