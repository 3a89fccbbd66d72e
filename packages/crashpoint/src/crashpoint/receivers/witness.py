"""A receiver's line to its own ledger trial: read all records, append one that is then kept.

Nothing is sent twice. When the line breaks after an append went out, nobody here knows whether it
was kept; the receiver's way to find out is to end and to read its records when it starts again.
"""

from __future__ import annotations

import hashlib
import json
import socket
from pathlib import Path
from typing import Any

__all__ = ["Witness", "WitnessGone", "WitnessRefused", "tag_of"]


def tag_of(token: str) -> str:
    """What names a trial in a receiver's address, and does not give its token away."""
    return hashlib.sha256(token.encode()).hexdigest()[:12]


class WitnessGone(RuntimeError):
    """The ledger is not there, or went away with a request unanswered."""


class WitnessRefused(RuntimeError):
    """The ledger keeps nothing for this token, or no more; str() is its answer."""


class Witness:
    """A connection to the ledger's witness socket, for one trial. For one thread at a time."""

    def __init__(self, path: Path, token: str) -> None:
        self._token = token
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.connect(str(path))
        except OSError as error:
            raise WitnessGone(f"no ledger at {path}: {error}") from error
        self._replies = self._socket.makefile("rb")

    def records(self) -> list[Any]:
        """What receivers have appended to the trial, oldest first."""
        records: list[Any] = self._ask({"token": self._token})["records"]
        return records

    def append(self, value: Any) -> None:
        """Append a JSON value; durable on return. Raises WitnessGone and WitnessRefused."""
        self._ask({"token": self._token, "append": value})

    def turn_to(self, token: str) -> None:
        """Read and append another trial from now on."""
        self._token = token

    def close(self) -> None:
        """Hang up."""
        self._replies.close()
        self._socket.close()

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        line = json.dumps(request, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        try:
            self._socket.sendall(line)
            answer = self._replies.readline()
        except OSError as error:
            raise WitnessGone(f"the ledger went away: {error}") from error
        if not answer.endswith(b"\n"):
            raise WitnessGone("the ledger hung up")
        reply: dict[str, Any] = json.loads(answer)
        if "error" in reply:
            raise WitnessRefused(reply["error"])
        return reply
