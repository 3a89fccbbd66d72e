"""The idempotency key of an effect: the same in every process that means the same effect."""

from __future__ import annotations

import hashlib

__all__ = ["call_name", "effect_key"]

KEY_BYTES = 16


def effect_key(run: str, call: str) -> str:
    """Hex of 16 bytes of SHA-256 over both parts, each behind its length in UTF-8 bytes.

    The lengths keep apart what a join would confuse: run `a:b`, call `c` and run `a`, call `b:c`.
    """
    parts = (run.encode(), call.encode())
    framed = b"".join(b"%d:%s" % (len(part), part) for part in parts)
    return hashlib.sha256(framed).digest()[:KEY_BYTES].hex()


def call_name(step: str, occurrence: int, trial: int = 0) -> str:
    """A call in a run: step, how many of that name came before it, and the trial of its effect."""
    return f"{step}#{occurrence}" if trial == 0 else f"{step}#{occurrence}!{trial}"
