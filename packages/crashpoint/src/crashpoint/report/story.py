"""One trial in plain words: what was passed, where the fault landed, what came of it.

Pure; tells what the sealed records and the controller's observations say, and judges nothing anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from crashpoint.ledger import oracle
from crashpoint.report.words import duration, plain, plural

__all__ = ["Step", "as_json", "line", "records", "steps"]

LENGTH_MAX: Final = 400
"""Characters of a foreign value that are shown; the evidence file has it whole."""

MODES: Final = {"hot": "a process that had the engine imported", "cold": "a fresh interpreter"}


class Step(NamedTuple):
    """One step of the story: its kind in a word, and a sentence."""

    kind: str
    says: str


def line(trial: Mapping[str, Any]) -> str:
    """A trial on one line: name, outcome, ending, recovery time, and why it is VOID."""
    verdict, seen = trial["verdict"], trial["seen"]
    took = duration(seen["recover_us"]) if "recover_us" in seen else "-"
    words = [
        f"{plain(trial['trial']):32}",
        f"{verdict['effects']:12}",
        f"{verdict['ending']:9}",
        f"{verdict['result']:11}",
        f"{seen['mode']:4}",
        f"{took:>8}",
        plain(verdict.get("void", "")),
    ]
    return "  ".join(words).rstrip()


def as_json(trial: Mapping[str, Any]) -> str:
    """A trial with everything in it, as one line of JSON."""
    return json.dumps(trial, sort_keys=True, ensure_ascii=True)


def records(trial: Mapping[str, Any]) -> str:
    """The story of a trial, then each of its sealed records, a line each."""
    told = [f"  {step.kind:9} {step.says}" for step in steps(trial)]
    sealed = [f"  {r['n']:3} {_clock(r['at_ns'])}  {_record(r)}" for r in trial["records"]]
    return "\n".join([*told, "", *sealed])


def steps(trial: Mapping[str, Any]) -> list[Step]:
    """What happened in a trial, in order. Raises KeyError for one without its members."""
    return list(_steps(trial))


def _steps(trial: Mapping[str, Any]) -> Iterator[Step]:
    seen, at_fault = trial["seen"], trial["seen"].get("records_at_fault")
    events = list(_events(trial))
    yield Step("start", _start(seen))
    if "fired" in seen:
        before = [event for event in events if at_fault is None or event.n < at_fault]
        events = events[len(before) :]
        yield from (event.step for event in before)
        yield Step("fault", _fault(seen["fired"], seen))
    if at_fault is not None:
        crossed = oracle.crossings(trial["records"][:at_fault])
        yield Step("ledger", f"At that moment the effect had crossed {plural(crossed, 'time')}.")
    if "store" in seen:
        yield Step("store", _store(seen["store"]))
    late = [event for event in events if _after_recovery(event, seen)]
    yield from (event.step for event in events if event not in late)
    if "recovery" in seen:
        yield Step("recovery", _recovery(seen))
    yield from (event.step for event in late)
    if "thawed" in seen:
        yield Step("thaw", f"The frozen process was let go on and {_ended(seen['thawed'])}.")
    if "final" in seen:
        yield Step("engine", _final(seen["final"], trial["verdict"]))
    if "error" in seen:
        yield Step("bench", f"The bench itself failed: {_short(seen['error'])}.")
    yield Step("seal", f"{plural(trial['count'], 'record')} sealed under head {trial['head']}.")
    yield Step("verdict", _verdict(trial["verdict"]))


class _Event(NamedTuple):
    """A record between the opening and the seal, told."""

    n: int
    at_ns: int
    step: Step


def _events(trial: Mapping[str, Any]) -> Iterator[_Event]:
    fired = trial["seen"].get("fired")
    known: set[tuple[str, str]] = set()
    attempts = 0
    for record in trial["records"]:
        kind = record["kind"]
        if kind == "attempt":
            attempts += 1
            told = f"Attempt {attempts}: {_described(record, known)}"
        elif kind == "resend":
            told = "The same request was sent once more; the ledger gave the same receipt"
        elif kind == "witness":
            told = f"The receiver noted {_short(record['body'])}"
        else:
            continue
        says = f"{told} (pid {record['peer']['pid']}{_when(record, fired)})."
        yield _Event(record["n"], record["at_ns"], Step(kind, says))


def _when(record: Mapping[str, Any], fired: Mapping[str, Any] | None) -> str:
    if fired is None:
        return ""
    away_us = (record["at_ns"] - fired["at_ns"]) // 1000
    return f", {duration(abs(away_us))} {'after' if away_us >= 0 else 'before'} the fault"


def _after_recovery(event: _Event, seen: Mapping[str, Any]) -> bool:
    """Whether a thawed process, and not the recovery, did it: told by the time."""
    if "thawed" not in seen or "recover_us" not in seen:
        return False
    fired = seen["fired"]
    done_ns: int = fired["at_ns"] + (fired["took_us"] + seen["recover_us"]) * 1000
    return event.at_ns > done_ns


def _described(record: Mapping[str, Any], known: set[tuple[str, str]]) -> str:
    name = (record["effect"], record["key"])
    told = f"{plain(record['effect'])} {_short(record['action'])}"
    if record["key"] is None:
        return f"{told} without a key, so it crossed"
    told += f" under key {_short(record['key'])}"
    if name not in known:
        known.add(name)
        return f"{told}, new to the ledger, so it crossed"
    told += ", which the ledger knew, so it changed nothing"
    return f"{told}; its action is another than the first one's" if record["mismatch"] else told


def _start(seen: Mapping[str, Any]) -> str:
    passed = ", ".join(map(plain, seen.get("passed", ())))
    start = f"The first process passed {passed}" if passed else "The first process started"
    if seen.get("fired"):
        return f"{start}, announced {plain(seen['fired']['point'])} and waited there."
    if seen.get("first"):
        return f"{start} and {_ended(seen['first'])}; no fault was injected."
    return f"{start}."


def _fault(fired: Mapping[str, Any], seen: Mapping[str, Any]) -> str:
    first = seen.get("first") or {}
    did = "was stopped" if first.get("how") == "frozen" else f"died of signal {_signal(first)}"
    whole = "" if fired["announced_within"] else "; the one that announced it was NOT among them"
    return (
        f"The fault hit {plural(fired['pids'], 'process', 'processes')} at "
        f"{plain(fired['point'])} within {duration(fired['took_us'])}{whole}; the first {did}."
    )


def _signal(process: Mapping[str, Any]) -> str:
    code = process.get("code")
    return str(-code) if isinstance(code, int) and code < 0 else f"none (exit status {code})"


def _store(store: Mapping[str, Any]) -> str:
    held = "held" if store["recorded"] else "did not hold"
    return f"The engine's own store {held} the effect's completion: {_facts(store['facts'])}."


def _recovery(seen: Mapping[str, Any]) -> str:
    took = f", {duration(seen['recover_us'])} after the fault" if "recover_us" in seen else ""
    by = MODES.get(seen["mode"], plain(seen["mode"]))
    return f"Recovery by {by} ({seen['mode']}) {_ended(seen['recovery'])}{took}."


def _ended(process: Mapping[str, Any]) -> str:
    said = f", saying {_short(process['said'])}" if process.get("said") else ""
    left = ""
    if process.get("leftovers"):
        left = f", leaving processes behind ({_short(process['leftovers'])})"
    if process["how"] == "hung":
        return f"hung{said}"
    code = process["code"]
    if isinstance(code, int) and code < 0:
        return f"died of signal {-code}{said}{left}"
    return f"ended with exit status {code}{said}{left}"


def _final(final: Mapping[str, Any], verdict: Mapping[str, Any]) -> str:
    calls = "calls the run finished" if final["finished"] else "does not call the run finished"
    compared = {
        "SAME": ", the same as an uncrashed run's",
        "WRONG": ", which is NOT an uncrashed run's",
    }.get(verdict["result"], "")
    return (
        f"The engine {calls} with result {_short(final['result'])}{compared}"
        f" ({_facts(final['facts'])})."
    )


def _verdict(verdict: Mapping[str, Any]) -> str:
    void = f": {_short(verdict['void'])}" if "void" in verdict else ""
    return (
        f"{verdict['effects']}{void}. Ending {verdict['ending']}, result {verdict['result']},"
        f" basis {verdict['basis']}."
    )


def _facts(facts: Mapping[str, Any]) -> str:
    words = (f"{plain(name)} {_short(value)}" for name, value in facts.items())
    return ", ".join(words) or "no facts"


def _record(record: Mapping[str, Any]) -> str:
    rest = {
        name: value
        for name, value in record.items()
        if name not in {"n", "at_ns", "kind", "trial", "prev", "mac"}
    }
    return f"{record['kind']:8} {_short(rest, limit=10 * LENGTH_MAX)}"


def _clock(at_ns: int) -> str:
    return datetime.fromtimestamp(at_ns / 1e9, UTC).strftime("%H:%M:%S.%f")


def _short(value: Any, *, limit: int = LENGTH_MAX) -> str:
    """A value on one line: text as it is, anything else as JSON, cut when it is long."""
    if not isinstance(value, str):
        value = json.dumps(value, sort_keys=True, ensure_ascii=False)
    text = plain(value)
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text)} characters)"
