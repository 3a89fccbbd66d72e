"""The digest by which evidence pins the predictions that were made before it."""

import hashlib
import json
from collections.abc import Mapping

from crashpoint.model.declaration import Declaration
from crashpoint.model.render import as_json
from crashpoint.model.words import FaultKind

__all__ = ["predictions_digest"]


def predictions_digest(rows: Mapping[str, Declaration], fault: FaultKind) -> str:
    """Return the SHA-256, as 64 hex digits, of what `as_json` says of `rows` under `fault`.

    The order of the rows does not matter; any name, declaration, outcome or the fault does.
    """
    text = json.dumps(as_json(rows, fault), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
