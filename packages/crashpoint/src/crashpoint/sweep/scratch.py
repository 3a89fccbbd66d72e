"""Where sweeps put their files; what a killed sweep in its own process left, the next removes."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

__all__ = ["clear", "memory_folder", "remove_what_is_left", "scratch_folder"]

MEMORY: Final = "/dev/shm"  # noqa: S108  folders are made in it by mkdtemp or as private
FREE_MIN: Final = 512 << 20
"""Bytes; containers are often given 64 MB, which a sweep's ledger can fill."""
PREFIX: Final = "crashpoint-raise-"
_mine: set[str] = set()


def memory_folder() -> str | None:
    """Where files cost no disk: a killed process keeps the page cache anyway. None: the default."""
    try:
        state = os.statvfs(MEMORY)
    except OSError:
        return None
    return MEMORY if state.f_bavail * state.f_frsize >= FREE_MIN else None


@contextmanager
def scratch_folder(parent: str | None) -> Iterator[Path]:
    """A new folder below `parent` (None: where temporary files go), removed at the end.

    It is locked meanwhile: by its end a process lets go of it, however that comes.
    """
    with ExitStack() as stack:
        folder = tempfile.mkdtemp(prefix=PREFIX, dir=parent)
        while not _locked(folder, stack):
            folder = tempfile.mkdtemp(prefix=PREFIX, dir=parent)
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


def remove_what_is_left() -> None:
    """Remove the folders that nobody holds, wherever a sweep may have made one."""
    for parent in {MEMORY, tempfile.gettempdir()}:
        with suppress(OSError), os.scandir(parent) as entries:
            for entry in entries:
                if entry.name.startswith(PREFIX):
                    _remove_unheld(entry.path)


def _locked(folder: str, stack: ExitStack) -> bool:
    """Hold a new folder until the stack is closed; False if somebody removed it just before."""
    with suppress(FileNotFoundError):
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        stack.callback(os.close, held)
        with suppress(OSError):  # where folders cannot be locked nobody removes them either
            fcntl.flock(held, fcntl.LOCK_EX)
    return Path(folder).is_dir()


def _remove_unheld(folder: str) -> None:
    with suppress(OSError):
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(held)
