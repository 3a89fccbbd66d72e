"""A checkpoint in one JSON file, written aside and renamed: two points for each save.

Standard library only, any Python >= 3.9. `sync=True` also makes it outlast a power cut.
"""

from __future__ import annotations

import json
import os
from typing import Any

from crashpoint.inside.points import allow, point

__all__ = ["FileStore"]

# Bound here, because a sweep may watch them in programs; this store announces its points itself.
_open, _write, _replace = os.open, os.write, os.replace
_encode = json.JSONEncoder(separators=(",", ":")).encode


class FileStore:
    """`load` returns what was saved last, or None; a temporary file left behind is ignored."""

    def __init__(self, path: str, *, sync: bool = False) -> None:
        self._path = path
        self._draft = path + ".tmp"
        self._sync = sync

    def load(self) -> Any:
        """The value saved last, or None when there is none."""
        try:
            fd = _open(self._path, os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            return json.loads(os.read(fd, os.fstat(fd).st_size))
        finally:
            os.close(fd)

    def save(self, value: Any) -> None:
        """Replace the value; passes the points `tmp` and `renamed`."""
        allow()
        fd = _open(self._draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        try:
            rest = memoryview(_encode(value).encode())
            while rest:
                rest = rest[_write(fd, rest) :]
            if self._sync:
                os.fsync(fd)
        finally:
            os.close(fd)
        point("tmp")
        _replace(self._draft, self._path)
        if self._sync:
            folder = _open(os.path.dirname(self._path) or ".", os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        point("renamed")
