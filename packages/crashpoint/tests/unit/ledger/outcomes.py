"""Sealed chains and what they come to, written down by hand."""

from typing import Any, NamedTuple

from crashpoint.model import Outcome


class Case(NamedTuple):
    attempts: list[dict[str, Any]]
    wanted: list[str]
    outcome: Outcome
    effects: dict[str, tuple[Outcome, int, int, int]]
    """By effect: outcome, crossings, attempts, mismatches."""


ONCE, TWICE = Outcome.EXACTLY_ONCE, Outcome.DUPLICATED
OTHER, LOST, VOID = Outcome.DIVERGED, Outcome.LOST, Outcome.VOID

A, B = {"amount": 1}, {"amount": 2}


def one(**attempt: Any) -> dict[str, Any]:
    return {"effect": "charge", "action": A, **attempt}


def mail(**attempt: Any) -> dict[str, Any]:
    return {"effect": "mail", "action": A, **attempt}


CASES: dict[str, Case] = {
    "nothing": Case([], ["charge"], LOST, {"charge": (LOST, 0, 0, 0)}),
    "one attempt": Case([one()], ["charge"], ONCE, {"charge": (ONCE, 1, 1, 0)}),
    "one attempt with a key": Case([one(key="k")], ["charge"], ONCE, {"charge": (ONCE, 1, 1, 0)}),
    "the same action twice without a key": Case(
        [one(), one()], ["charge"], TWICE, {"charge": (TWICE, 2, 2, 0)}
    ),
    "two actions without a key": Case(
        [one(), one(action=B)], ["charge"], OTHER, {"charge": (OTHER, 2, 2, 0)}
    ),
    "one key twice": Case(
        [one(key="k"), one(key="k", pid=2)], ["charge"], ONCE, {"charge": (ONCE, 1, 2, 0)}
    ),
    "one key, another action": Case(
        [one(key="k"), one(key="k", action=B, pid=2)],
        ["charge"],
        ONCE,
        {"charge": (ONCE, 1, 2, 1)},
    ),
    "one key, another action, then the first one again": Case(
        [one(key="k"), one(key="k", action=B), one(key="k")],
        ["charge"],
        ONCE,
        {"charge": (ONCE, 1, 3, 1)},
    ),
    "two keys, the same action": Case(
        [one(key="k"), one(key="l")], ["charge"], TWICE, {"charge": (TWICE, 2, 2, 0)}
    ),
    "two keys, two actions": Case(
        [one(key="k"), one(key="l", action=B)], ["charge"], OTHER, {"charge": (OTHER, 2, 2, 0)}
    ),
    "with a key and without": Case(
        [one(key="k"), one()], ["charge"], TWICE, {"charge": (TWICE, 2, 2, 0)}
    ),
    "three, one of them different": Case(
        [one(), one(), one(action=B)], ["charge"], OTHER, {"charge": (OTHER, 3, 3, 0)}
    ),
    "a null action is an action": Case(
        [one(action=None)], ["charge"], ONCE, {"charge": (ONCE, 1, 1, 0)}
    ),
    "a re-send is no attempt": Case(
        [one(id="i"), one(id="i")], ["charge"], ONCE, {"charge": (ONCE, 1, 1, 0)}
    ),
    "a re-send with a key is no attempt": Case(
        [one(id="i", key="k"), one(id="i", key="k")],
        ["charge"],
        ONCE,
        {"charge": (ONCE, 1, 1, 0)},
    ),
    "the same id from another process is an attempt": Case(
        [one(id="i"), one(id="i", pid=2)], ["charge"], TWICE, {"charge": (TWICE, 2, 2, 0)}
    ),
    "the same id with another action is an attempt": Case(
        [one(id="i"), one(id="i", action=B)], ["charge"], OTHER, {"charge": (OTHER, 2, 2, 0)}
    ),
    "a re-send of a mismatch is neither": Case(
        [one(key="k"), one(key="k", id="i", action=B), one(key="k", id="i", action=B)],
        ["charge"],
        ONCE,
        {"charge": (ONCE, 1, 2, 1)},
    ),
    "a key is an effect's own": Case(
        [one(key="k"), mail(key="k", action=B)],
        ["charge", "mail"],
        ONCE,
        {"charge": (ONCE, 1, 1, 0), "mail": (ONCE, 1, 1, 0)},
    ),
    "one of two lost": Case(
        [mail()], ["charge", "mail"], LOST, {"charge": (LOST, 0, 0, 0), "mail": (ONCE, 1, 1, 0)}
    ),
    "duplicated is worse than lost": Case(
        [mail(), mail()],
        ["charge", "mail"],
        TWICE,
        {"charge": (LOST, 0, 0, 0), "mail": (TWICE, 2, 2, 0)},
    ),
    "diverged is worse than duplicated": Case(
        [one(), mail(), one(), mail(action=B)],
        ["charge", "mail"],
        OTHER,
        {"charge": (TWICE, 2, 2, 0), "mail": (OTHER, 2, 2, 0)},
    ),
    "void is worse than diverged: an effect nobody expected": Case(
        [one(), one(action=B), mail()], ["charge"], VOID, {}
    ),
    "a re-sent stranger is one already": Case([mail(id="i"), mail(id="i")], ["charge"], VOID, {}),
    "nothing wanted, nothing done": Case([], [], VOID, {}),
}
