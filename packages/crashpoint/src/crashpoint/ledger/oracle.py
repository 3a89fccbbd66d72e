"""Counts a sealed chain into an outcome. Pure; the only place where attempts become a verdict.

A crossing is an attempt that changed the world: every attempt without a key, and the first attempt
under each key. None is LOST, one is EXACTLY_ONCE, several are DUPLICATED when their actions are the
same and DIVERGED when not. Anything that cannot be certified is VOID, whatever else it shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from crashpoint.canonical import digest
from crashpoint.ledger.chain import Kind, Record, SealedChain, fault_in
from crashpoint.model import Outcome, worst

__all__ = ["Count", "Effect", "count", "crossings"]


@dataclass(frozen=True)
class Effect:
    """What one named effect came to in a trial."""

    outcome: Outcome
    crossings: int
    attempts: int
    mismatches: int
    """Attempts under a known key with another action: told to nobody, changed nothing."""


@dataclass(frozen=True)
class Count:
    """A trial's outcome, its effects by name, and why it is VOID if it is."""

    outcome: Outcome
    effects: Mapping[str, Effect]
    void: str | None = None


def count(chain: SealedChain, wanted: Sequence[str]) -> Count:
    """Judge a sealed chain against the names of the effects that should have happened once each.

    Never raises: a chain that does not verify, lacks its tail, contradicts itself or holds an
    effect nobody expected is VOID with the reason.
    """
    void = _unfit(chain) or fault_in(chain.trial, chain.key, chain.records)
    void = void or _contradiction(chain.records) or _stranger(chain.records, wanted)
    if void is not None:
        return Count(Outcome.VOID, {}, void)
    effects = {name: _judge(_attempts(chain.records, name)) for name in wanted}
    return Count(worst(effect.outcome for effect in effects.values()), effects)


def crossings(records: Sequence[Record]) -> int:
    """How many times the world was changed in a list of records, complete or not."""
    return len(_crossings([record for record in records if record["kind"] == Kind.ATTEMPT]))


def _unfit(chain: SealedChain) -> str | None:
    """Why the list is not the one that the daemon told the controller about."""
    try:
        if len(chain.records) != chain.count:
            return f"the chain has {len(chain.records)} records, the controller knows {chain.count}"
        if chain.records[-1]["hash"] != chain.head:
            return "the chain does not end in the head that the controller knows"
    except (LookupError, TypeError) as error:
        return f"the last record is malformed ({type(error).__name__}: {error})"
    return None


def _contradiction(records: Sequence[Record]) -> str | None:
    """What the daemon concluded and wrote down, concluded once more from the records alone."""
    first_action: dict[tuple[str, str], str] = {}
    sent = set()
    for n, record in enumerate(records):
        if record["kind"] not in (Kind.ATTEMPT, Kind.RESEND):
            continue
        effect, key, action = record["effect"], record["key"], record["digest"]
        if action != digest(record["action"]):
            return f"record {n}: digest is not the action's"
        first = action if key is None else first_action.setdefault((effect, key), action)
        if record["mismatch"] != (action != first):
            return f"record {n}: mismatch cannot be {record['mismatch']}"
        promise = (*sorted(record["peer"].items()), record["id"], effect, key, action)
        if (record["kind"] == Kind.RESEND) != (promise in sent):
            return f"record {n}: cannot be of kind {record['kind']}"
        sent.add(promise)
    return None


def _stranger(records: Sequence[Record], wanted: Sequence[str]) -> str | None:
    strangers = sorted(
        record["effect"]
        for record in records
        if record["kind"] == Kind.ATTEMPT and record["effect"] not in wanted
    )
    return f"an effect nobody expected: {strangers[0]!r}" if strangers else None


def _attempts(records: Sequence[Record], effect: str) -> list[Record]:
    return [r for r in records if r["kind"] == Kind.ATTEMPT and r["effect"] == effect]


def _judge(attempts: list[Record]) -> Effect:
    crossed = _crossings(attempts)
    actions = {record["digest"] for record in crossed}
    if not crossed:
        outcome = Outcome.LOST
    elif len(crossed) == 1:
        outcome = Outcome.EXACTLY_ONCE
    elif len(actions) == 1:
        outcome = Outcome.DUPLICATED
    else:
        outcome = Outcome.DIVERGED
    mismatches = sum(record["mismatch"] for record in attempts)
    return Effect(outcome, len(crossed), len(attempts), mismatches)


def _crossings(attempts: Sequence[Record]) -> list[Record]:
    known: set[tuple[str, str]] = set()
    crossed = []
    for record in attempts:
        name = (record["effect"], record["key"])
        if record["key"] is None or name not in known:
            crossed.append(record)
            known.add(name)
    return crossed
