"""Canonical JSON, digests, the hash chain and its MACs.

Everything that is hashed anywhere in the bench is hashed over the bytes made here, so two readers
of one record cannot disagree about what it says. The encoding: UTF-8, keys sorted by code point,
no white space, shortest float form; NaN, infinities, lone surrogates, keys that are no strings and
nesting beyond DEPTH_MAX have no encoding and are refused. Test vectors for other implementations
are in `tests/vectors/canonical.json`.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
from collections.abc import Iterable
from typing import Any, Final

__all__ = [
    "DEPTH_MAX",
    "GENESIS",
    "Json",
    "NotCanonical",
    "canonical",
    "digest",
    "digest_of",
    "link",
    "mac",
    "parse",
    "same",
]

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

GENESIS: Final = hashlib.sha256(b"crashpoint.chain/1").hexdigest()
"""What the first record of a chain names as its predecessor."""

DEPTH_MAX: Final = 128
"""Lists and objects one inside the other. A fixed number, because the interpreter's own limit
depends on who asks: what one reader accepts, another could not read back."""


class NotCanonical(ValueError):
    """The value or text has no canonical form; the message says what stands in the way."""


def canonical(value: Any) -> bytes:
    """Encode a JSON value (None, bool, int, float, str, list, dict with str keys) canonically.

    A tuple is written as a list. Raises NotCanonical for any other type, NaN, infinities, lone
    surrogates, cycles and nesting beyond DEPTH_MAX.
    """
    try:
        _check(value, DEPTH_MAX)
        return _encode(value).encode()
    except RecursionError:
        raise NotCanonical(f"no canonical JSON: nested deeper than {DEPTH_MAX}") from None
    except (ValueError, TypeError) as error:
        raise NotCanonical(f"no canonical JSON: {error}") from None


def parse(text: bytes | str, *, depth_max: int = DEPTH_MAX) -> Any:
    """Read one JSON value, refusing what `canonical` refuses, and a key given twice.

    Raises NotCanonical.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode()
        else:
            text.encode()  # refuses lone surrogates, as decoding does
        value = _decoder.decode(text)
        # Looked for only where there is a reason: almost no text has one.
        if text.count("[") + text.count("{") > depth_max:
            _check(value, depth_max)
        if "\\ud" in text or "\\uD" in text:
            _encode(value).encode()
    except RecursionError:
        raise NotCanonical(f"not JSON that can be kept: nested deeper than {depth_max}") from None
    except ValueError as error:
        raise NotCanonical(f"not JSON that can be kept: {error}") from None
    return value


def digest(value: Any) -> str:
    """SHA-256 of the canonical form, 64 hex digits. Raises NotCanonical."""
    return digest_of(canonical(value))


def digest_of(encoded: bytes) -> str:
    """SHA-256 of bytes that are canonical already, 64 hex digits."""
    return hashlib.sha256(encoded).hexdigest()


def link(record: dict[str, Any]) -> str:
    """Hash of a chain record: everything in it except its own `hash` and `mac`, `prev` included."""
    return digest({name: value for name, value in record.items() if name not in ("hash", "mac")})


def mac(key: bytes, purpose: str, *parts: str) -> str:
    """HMAC-SHA-256 (64 hex digits) over a purpose and parts, each after its length in characters.

    `key` has at most 64 bytes.
    """
    text = "".join([f"{len(part)}:{part}" for part in (purpose, *parts)])
    # HMAC as its definition says: the library's one-shot call takes three times as long.
    block = key.ljust(64, b"\0")
    inner = hashlib.sha256(block.translate(_INNER) + text.encode()).digest()
    return hashlib.sha256(block.translate(_OUTER) + inner).hexdigest()


def same(left: str, right: str) -> bool:
    """Compare two hex digests in constant time."""
    return hmac.compare_digest(left.encode(), right.encode())


def _check(value: Any, room: int) -> None:
    """Refuse what the encoder would take: keys that it turns into strings, and any depth."""
    if isinstance(value, dict):
        for name in value:
            if not isinstance(name, str):
                raise TypeError(f"key {name!r} is not a string")
        members: Iterable[Any] = value.values()
    elif isinstance(value, (list, tuple)):
        members = value
    else:
        return
    if room == 0:
        raise RecursionError
    for member in members:
        if type(member) not in _FLAT:
            _check(member, room - 1)


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        twin = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"key {twin!r} stands twice in one object")
    return members


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is beyond a 64-bit float")
    return number


_INNER: Final = bytes(byte ^ 0x36 for byte in range(256))
_OUTER: Final = bytes(byte ^ 0x5C for byte in range(256))
_FLAT: Final = frozenset({str, int, float, bool, type(None)})
# Cycles are found by `_check`, as endless depth.
_encode: Final = json.JSONEncoder(
    sort_keys=True,
    separators=(",", ":"),
    ensure_ascii=False,
    allow_nan=False,
    check_circular=False,
).encode
_decoder: Final = json.JSONDecoder(
    object_pairs_hook=_no_twins, parse_constant=_no_constant, parse_float=_finite
)
