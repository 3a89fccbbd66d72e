"""Evidence files: how they are written, closed and read.

A document's body is bound by the seal of a ledger trial of its own (`closing`) and by a receipt
over the whole. That proves integrity, not authorship: the run's key is in the file, so that anyone
can check the MACs, and whoever rewrites everything consistently has made a new file, not this
run's.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from crashpoint.canonical import NotCanonical, digest, parse
from crashpoint.ledger.chain import SealedChain, fault_in, trial_key
from crashpoint.ledger.control import Ledger

__all__ = [
    "EvidenceFault",
    "chain_of",
    "close_document",
    "fault_in_closing",
    "read_document",
    "render",
    "write_atomically",
]

CLOSING: Final = "closing"


class EvidenceFault(ValueError):
    """A file that is no evidence or does not hold what it says; the message says where."""


def render(document: Mapping[str, Any]) -> bytes:
    """The one form in which a document is written: a member a line, a list's element a line."""
    members = []
    for name, value in document.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            lines = ",\n".join(f"  {_compact(element)}" for element in value)
            members.append(f" {_compact(name)}: [\n{lines}\n ]")
        else:
            members.append(f" {_compact(name)}: {_compact(value)}")
    return ("{\n" + ",\n".join(members) + "\n}\n").encode()


def read_document(path: Path) -> dict[str, Any]:
    """Read a document; raises EvidenceFault unless it is exactly as `render` writes it."""
    try:
        if path.exists() and not path.is_file():
            raise EvidenceFault("it is no regular file")
        raw = path.read_bytes()
        document = parse(raw)
    except OSError as error:
        raise EvidenceFault(f"cannot be read: {error.strerror}") from None
    except NotCanonical as error:
        raise EvidenceFault(str(error)) from None
    if not isinstance(document, dict) or render(document) != raw:
        raise EvidenceFault("it is not in the form in which crashpoint writes evidence")
    return document


async def close_document(body: Mapping[str, Any], ledger: Ledger) -> dict[str, Any]:
    """Add the run's key, the closing seal over everything else, and the receipt."""
    document = {**body, "run_key": ledger.run_key.hex()}
    trial = await ledger.open(CLOSING)
    chain = await trial.seal(digest(document))
    document[CLOSING] = {
        "head": chain.head,
        "count": chain.count,
        "records": list(chain.records),
    }
    document["receipt"] = f"sha256:{digest(document)}"
    return document


def fault_in_closing(document: Mapping[str, Any]) -> str | None:
    """Why the receipt or the closing seal does not fit the document, or None."""
    rest = {name: value for name, value in document.items() if name != "receipt"}
    if document.get("receipt") != f"sha256:{digest(rest)}":
        return "the receipt is not the content's"
    body = {name: value for name, value in rest.items() if name != CLOSING}
    try:
        key = trial_key(bytes.fromhex(body["run_key"]), CLOSING)
        records = rest[CLOSING]["records"]
        if set(rest[CLOSING]) != {"head", "count", "records"}:
            return "the closing seal has members that it should not have, or lacks some"
        problem = fault_in(CLOSING, key, records)
        if problem is not None:
            return f"the closing seal: {problem}"
        if records[-1]["note"] != digest(body):
            return "the closing seal is not over this content"
        wanted = (records[-1]["hash"], repr(len(records)))
        if (rest[CLOSING]["head"], repr(rest[CLOSING]["count"])) != wanted:
            return "the closing seal's head or count is not its records'"
    except (KeyError, TypeError, ValueError) as error:
        return f"the closing seal is malformed ({type(error).__name__}: {error})"
    return None


def chain_of(document: Mapping[str, Any], trial: Mapping[str, Any]) -> SealedChain:
    """The sealed chain of one trial in a document."""
    return SealedChain(
        trial["trial"],
        trial_key(bytes.fromhex(document["run_key"]), trial["trial"]),
        trial["head"],
        trial["count"],
        trial["records"],
    )


def write_atomically(path: Path, data: bytes) -> None:
    """Replace the file, whole and durable, or leave it as it was; raises OSError."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError:
        with suppress(OSError):
            draft.unlink()
        raise


def _compact(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False)
