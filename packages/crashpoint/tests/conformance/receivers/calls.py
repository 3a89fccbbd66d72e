"""Requests the suite makes, and short ways to look at what came of them."""

from typing import Any

from conformance.receivers.fronts import Front
from crashpoint.receivers.dialect import (
    KEYED,
    KEYED_CHECKED,
    KEYED_RETENTION,
    LOOKUP,
    NOTHING,
    Dialect,
)

__all__ = ["ALL", "KEEPS_KEYS", "KEYLESS", "MAKES", "OTHER", "did", "made", "request", "sentence"]

ALL = (KEYED, KEYED_RETENTION, KEYED_CHECKED, LOOKUP, NOTHING)
KEEPS_KEYS = (KEYED, KEYED_RETENTION, KEYED_CHECKED)
KEYLESS = (LOOKUP, NOTHING)

MAKES: dict[str, dict[str, Any]] = {
    "tracker": {"op": "file", "args": {"title": "login fails", "body": "on a space"}},
    "payments": {"op": "charge", "args": {"order": "o-1", "cents": 500, "currency": "EUR"}},
}
"""A change each receiver makes at once."""
OTHER: dict[str, dict[str, Any]] = {
    "tracker": {"op": "file", "args": {"title": "export stops", "body": ""}},
    "payments": {"op": "charge", "args": {"order": "o-1", "cents": 501, "currency": "EUR"}},
}
"""Another one."""


def request(op: str, key: Any = None, /, **args: Any) -> dict[str, Any]:
    """A request; without a key it has no such member."""
    return {"op": op, "args": args} | ({} if key is None else {"key": key})


def made(reply: dict[str, Any]) -> int:
    """The number in the answer to a change."""
    assert reply["status"] == 200, reply
    (number,) = reply["body"].values()
    return number


def sentence(reply: dict[str, Any], status: int) -> str:
    """What a refusal of this status says: one line."""
    assert reply["status"] == status, reply
    (text,) = reply["body"].values()
    assert text
    assert "\n" not in text
    return text


def did(front: Front) -> list[str]:
    """What came of each recorded request."""
    return [record["did"] for record in front.records()]


def ids(dialect: Dialect) -> str:
    """A dialect's name, for pytest."""
    return dialect.name
