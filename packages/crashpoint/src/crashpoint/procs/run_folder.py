"""The folder of one run, and the janitor that removes it however the run ends."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from crashpoint.procs import janitor

__all__ = ["SOCKET_PATH_MAX", "FolderFault", "RunFolder", "run_folder"]

SOCKET_PATH_MAX: Final = 107
"""Bytes the kernel allows in a Unix socket's path."""
JANITOR_S: Final = 15.0
"""Longest wait for the janitor, seconds; it needs milliseconds when all went well."""
LONGEST_SOCKET: Final = "sockets/witness.sock"


class FolderFault(RuntimeError):
    """The run has no usable temporary folder; the message names it and the remedy."""


class RunFolder:
    """`path` holds all that a run leaves on disk; `adopt` names a process that must end with it."""

    def __init__(self, path: Path, sink: int) -> None:
        self.path = path
        self._sink = sink

    def adopt(self, pid: int) -> None:
        """Have the process waited for, or killed, before the folder goes."""
        with suppress(OSError):
            os.write(self._sink, b"%d %d\n" % (pid, janitor.start_of(pid)))

    def sub(self, name: str) -> Path:
        """Make and return a folder inside."""
        path = self.path / name
        path.mkdir(parents=True)
        return path


@contextmanager
def run_folder(parent: str | None = None) -> Iterator[RunFolder]:
    """Make a private folder under TMPDIR; removed at the end, also when this process is killed.

    `parent` is where it is made when TMPDIR is not set; None: where temporary files go.

    Raises FolderFault when TMPDIR is too long for a socket path or cannot be written to.
    """
    # Not `gettempdir`, which takes another folder in silence when TMPDIR cannot be used.
    above = Path(os.environ.get("TMPDIR") or parent or tempfile.gettempdir()).absolute()
    path = above / f"crashpoint-{secrets.token_hex(6)}"
    longest = len(os.fsencode(path / LONGEST_SOCKET))
    if longest > SOCKET_PATH_MAX:
        raise FolderFault(
            f"socket path too long: {path / LONGEST_SOCKET} has {longest} bytes, the kernel allows "
            f"{SOCKET_PATH_MAX}; set TMPDIR to a shorter folder, for example TMPDIR=/tmp"
        )
    source, sink = os.pipe()
    helper = subprocess.Popen(
        [sys.executable, "-I", "-S", janitor.__file__, str(path)],
        stdin=source,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(source)
    try:
        # The janitor comes first: this process may be killed as soon as the folder is there.
        _make(path)
        yield RunFolder(path, sink)
    finally:
        os.close(sink)
        try:
            helper.wait(JANITOR_S)
        except subprocess.TimeoutExpired:
            helper.kill()
            helper.wait()
        shutil.rmtree(path, ignore_errors=True)


def _make(path: Path) -> None:
    try:
        path.mkdir(mode=0o700)
    except OSError as error:
        raise FolderFault(
            f"cannot make a temporary folder: {error.strerror} ({path}); "
            "set TMPDIR to a folder that can be written to"
        ) from error
