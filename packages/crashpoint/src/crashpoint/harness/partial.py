"""The lines that keep a run's sealed trials while it goes on: the first says what the run is.

Each line carries a digest of itself and the line before, so that what stands there is what was
written; what was cut off at the end is not missed, since that is what the file is for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TextIO

from crashpoint.canonical import NotCanonical, digest, parse
from crashpoint.pipeline.evidence import EvidenceFault

__all__ = ["Partial", "read_partial"]

LINK: Final = "line"


class Partial:
    """Writes the lines to an open file; each is handed to the system at once."""

    def __init__(self, sink: TextIO) -> None:
        self._sink = sink
        self._before = ""

    def add(self, record: Mapping[str, Any]) -> None:
        """One more line. Raises OSError."""
        # As it will be read: evidence holds JSON values and no others.
        record = json.loads(json.dumps(record))
        self._before = digest([self._before, record])
        self._sink.write(json.dumps({**record, LINK: self._before}) + "\n")
        self._sink.flush()


def read_partial(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a file, checked; raises EvidenceFault for one that was changed."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise EvidenceFault(f"cannot be read: {error.strerror}") from None
    records: list[dict[str, Any]] = []
    before = ""
    # What follows the last line break was being written when the run was cut off.
    for number, line in enumerate(lines[:-1], start=1):
        try:
            record = parse(line)
            link = record.pop(LINK)
            before = digest([before, record])
        except (NotCanonical, AttributeError, KeyError, TypeError) as error:
            raise EvidenceFault(f"line {number} is malformed ({error})") from None
        if link != before:
            raise EvidenceFault(f"line {number} is not what was written there")
        records.append(record)
    if not records:
        raise EvidenceFault("it holds no run: its first line is cut short")
    return records
