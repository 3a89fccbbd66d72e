"""What a receiver does, as literal tables: at a time, a request, its answer, and what is recorded.

A second's worth of Python in them would be a second service; there is none.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from crashpoint.receivers.dialect import (
    KEYED,
    KEYED_CHECKED,
    KEYED_RETENTION,
    LOOKUP,
    NOTHING,
    Dialect,
)

__all__ = ["SCRIPTS", "Step", "request"]


class Step(NamedTuple):
    """One request. `did` is None when it leaves no record; `says` is part of a refusal."""

    at_s: float
    request: Any
    status: int
    body: dict[str, Any] | None
    did: str | None = None
    says: str = ""


def request(op: Any, key: Any = None, /, **args: Any) -> dict[str, Any]:
    """A request; without a key it has no such member."""
    return {"op": op, "args": args} | ({} if key is None else {"key": key})


def acts(at_s: float, sent: Any, **body: int) -> Step:
    return Step(at_s, sent, 200, body, "acted")


def repeats(at_s: float, sent: Any, **body: int) -> Step:
    return Step(at_s, sent, 200, body, "repeated")


def refuses(at_s: float, sent: Any, status: int, says: str) -> Step:
    return Step(at_s, sent, status, None, "refused", says)


def reads(at_s: float, sent: Any, **body: Any) -> Step:
    return Step(at_s, sent, 200, body)


def rejects(at_s: float, sent: Any, says: str, status: int = 400) -> Step:
    return Step(at_s, sent, status, None, None, says)


FILE_A = request("file", title="a")
KEYED_A = request("file", "k", title="a")
CHARGE = request("charge", order="o", cents=100)
MINUTE = replace(KEYED_RETENTION, retention_s=60.0)
CHECKED_MINUTE = replace(KEYED_CHECKED, retention_s=60.0)
LATE = replace(LOOKUP, visible_within_s=60.0)
LATE_KEYED = replace(KEYED, visible_within_s=60.0)


def find_a(**more: Any) -> dict[str, Any]:
    return request("find", **FILE_A, **more)


SCRIPTS: dict[str, tuple[str, Dialect, Sequence[Step]]] = {
    "no key, no memory": (
        "tracker",
        KEYED,
        [acts(0, FILE_A, issue=1), acts(0, FILE_A, issue=2)],
    ),
    "keys mean nothing to it": (
        "tracker",
        NOTHING,
        [acts(0, KEYED_A, issue=1), acts(0, KEYED_A, issue=2)],
    ),
    "a key for ever": (
        "tracker",
        KEYED,
        [
            acts(0, KEYED_A, issue=1),
            acts(0, request("file", "l", title="a"), issue=2),
            repeats(0, KEYED_A, issue=1),
            repeats(10**9, request("comment", "k", issue=1, text="t"), issue=1),
            repeats(10**9, request("file", "l", title="z"), issue=2),
        ],
    ),
    "a key for a minute": (
        "tracker",
        MINUTE,
        [
            acts(5, KEYED_A, issue=1),
            repeats(64.9, KEYED_A, issue=1),
            acts(65, KEYED_A, issue=2),
            repeats(124.9, KEYED_A, issue=2),
            acts(125, KEYED_A, issue=3),
        ],
    ),
    "a checked key": (
        "tracker",
        KEYED_CHECKED,
        [
            acts(0, KEYED_A, issue=1),
            refuses(0, request("file", "k", title="b"), 422, "another request"),
            refuses(0, request("comment", "k", issue=1, text="t"), 422, "another request"),
            repeats(10**9, request("file", "k", title="a", body=""), issue=1),
        ],
    ),
    "a checked key of a request that looks the same": (
        "payments",
        KEYED_CHECKED,
        [
            acts(0, request("charge", order="o", cents=1), charge=1),
            acts(0, request("refund", "k", charge=1, cents=1), refund=2),
            refuses(0, request("charge", "k", order="o", cents=1), 422, "another request"),
        ],
    ),
    "a checked key for a minute": (
        "tracker",
        CHECKED_MINUTE,
        [acts(0, KEYED_A, issue=1), acts(60, request("file", "k", title="b"), issue=2)],
    ),
    "a refusal does not use up its key": (
        "tracker",
        KEYED_CHECKED,
        [
            refuses(0, request("comment", "k", issue=1, text="t"), 404, "no issue 1"),
            acts(0, KEYED_A, issue=1),
        ],
    ),
    "comments": (
        "tracker",
        NOTHING,
        [
            acts(0, FILE_A, issue=1),
            acts(0, request("comment", issue=1, text="t"), comment=2),
            refuses(0, request("comment", issue=2, text="t"), 404, "no issue 2"),
            refuses(0, request("comment", issue=3, text="t"), 404, "no issue 3"),
            acts(0, FILE_A, issue=3),
            acts(0, request("comment", issue=3, text="t"), comment=4),
        ],
    ),
    "refunds": (
        "payments",
        NOTHING,
        [
            refuses(0, request("refund", charge=1, cents=1), 404, "no charge 1"),
            acts(0, CHARGE, charge=1),
            acts(0, CHARGE, charge=2),
            acts(0, request("refund", charge=1, cents=60), refund=3),
            refuses(0, request("refund", charge=1, cents=41), 409, "the 40 left of charge 1"),
            refuses(0, request("refund", charge=3, cents=1), 404, "no charge 3"),
            acts(0, request("refund", charge=2, cents=100), refund=4),
            acts(0, request("refund", charge=1, cents=40), refund=5),
            refuses(0, request("refund", charge=1, cents=1), 409, "the 0 left of charge 1"),
        ],
    ),
    "search": (
        "tracker",
        LATE,
        [
            acts(0, request("file", title="abc", body="x"), issue=1),
            acts(30, request("file", title="x", body="abc"), issue=2),
            acts(30, request("comment", issue=1, text="abc"), comment=3),
            acts(30, request("file", title="xyz"), issue=4),
            reads(59.9, request("search", text="b"), issues=[]),
            reads(60, request("search", text="b"), issues=[1]),
            reads(90, request("search", text="b"), issues=[1, 2]),
            reads(90, request("search", text="abcd"), issues=[]),
        ],
    ),
    "look up": (
        "payments",
        LATE,
        [
            acts(0, CHARGE, charge=1),
            acts(0, request("refund", charge=1, cents=1), refund=2),
            acts(30, request("charge", order="p", cents=7, currency="USD"), charge=3),
            reads(59.9, request("look_up", order="o"), charges=[]),
            reads(
                60,
                request("look_up", order="o"),
                charges=[{"charge": 1, "cents": 100, "currency": "EUR", "refunded": 1}],
            ),
            reads(60, request("look_up", order="p"), charges=[]),
            reads(
                90,
                request("look_up", order="p"),
                charges=[{"charge": 3, "cents": 7, "currency": "USD", "refunded": 0}],
            ),
        ],
    ),
    "find": (
        "tracker",
        LATE,
        [
            reads(0, find_a(), found=False, final=False, ids=[]),
            reads(0, find_a(age_s=60), found=False, final=True, ids=[]),
            acts(0, FILE_A, issue=1),
            acts(0, request("file", title="b"), issue=2),
            acts(1, FILE_A, issue=3),
            reads(59.9, find_a(age_s=59.9), found=False, final=False, ids=[]),
            reads(60, find_a(), found=True, final=True, ids=[1]),
            reads(61, find_a(), found=True, final=True, ids=[1, 3]),
            reads(
                61,
                request("find", op="comment", args={"issue": 1, "text": "a"}),
                found=False,
                final=False,
                ids=[],
            ),
            rejects(0, request("find", key="k"), "keeps no keys"),
        ],
    ),
    "find by key": (
        "tracker",
        LATE_KEYED,
        [
            acts(0, FILE_A, issue=1),
            acts(0, KEYED_A, issue=2),
            repeats(30, KEYED_A, issue=2),
            reads(59.9, request("find", key="k"), found=False, final=False, ids=[]),
            reads(60, request("find", key="k"), found=True, final=True, ids=[2]),
            reads(60, request("find", key="l"), found=False, final=False, ids=[]),
            reads(60, request("find", key="l", age_s=60), found=False, final=True, ids=[]),
        ],
    ),
    "find by a key that is kept for a minute": (
        "tracker",
        MINUTE,
        [
            acts(0, KEYED_A, issue=1),
            reads(59.9, request("find", key="k"), found=True, final=True, ids=[1]),
            reads(60, request("find", key="k", age_s=60), found=False, final=False, ids=[]),
            reads(60, request("find", key="l", age_s=59.9), found=False, final=True, ids=[]),
            reads(60, find_a(age_s=60), found=True, final=True, ids=[1]),
        ],
    ),
    "find nothing clear": (
        "tracker",
        KEYED,
        [
            rejects(0, request("find"), "either op and args, or key"),
            rejects(0, request("find", op="file"), "either op and args, or key"),
            rejects(0, request("find", args={"title": "a"}), "either op and args, or key"),
            rejects(0, request("find", key="k", op="file"), "either op and args, or key"),
            rejects(0, request("find", key="k", args={"title": "a"}), "either op and args, or key"),
            rejects(0, find_a(key="k"), "either op and args, or key"),
            rejects(0, request("find", op="file", args={}), "title is missing"),
            rejects(0, request("find", op="search", args={"text": "a"}), "changes nothing"),
        ],
    ),
    "no look-up": (
        "tracker",
        NOTHING,
        [
            rejects(0, find_a(), "no look-up", 404),
            reads(0, request("search", text="a"), issues=[]),
        ],
    ),
    "no look-up of charges": (
        "payments",
        NOTHING,
        [rejects(0, request("look_up", order="o"), "no look-up", 404)],
    ),
    "keys that are none": (
        "tracker",
        NOTHING,
        [
            rejects(0, request("file", "", title="a"), "key must be a string of 1 to 255"),
            rejects(0, request("file", "k" * 256, title="a"), "key must be"),
            rejects(0, request("file", 7, title="a"), "key must be"),
            rejects(0, request("file", "\ud800", title="a"), "key must be"),
            acts(0, {"op": "file", "args": {"title": "a"}, "key": None}, issue=1),
        ],
    ),
}
