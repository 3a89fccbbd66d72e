"""A sweep as plain text: its summary, what is wrong with the program, one scenario's story.

Everything is made from the JSON values of a report (`sweep.report.as_json`), so that a file shows
what the run showed. No colour and no control characters; ASCII but for what names contain.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from crashpoint.report.words import count, folded, plain, plural
from crashpoint.sweep.report import CODES, WORST_FIRST, described

__all__ = [
    "BASES",
    "MEANINGS",
    "NAMES",
    "change_line",
    "collapsed",
    "command",
    "complaint",
    "counted",
    "failing_points",
    "headline",
    "located",
    "place_of",
    "request_line",
    "results_line",
    "story",
    "summary",
    "why",
]

WIDTH: Final = 100
SHOWN: Final = 8
"""Points, effects or requests of one kind that are listed before the rest is counted."""
PLACE: Final = re.compile(r"(?s)(?P<file>.+):(?P<line>[0-9]+)(?: (?P<function>[^ ]+))?")
TEXT_MAX: Final = 160
"""Characters of a file, a result or a message on one line."""

AT_POINTS: Final = ("kill", "wrong-answer")
"""Faults for which the first process is crashed at a point."""

NAMES: Final[Mapping[str, str]] = {
    ".": "exactly once",
    "D": "DUPLICATED",
    "V": "DIVERGED",
    "L": "LOST",
    "W": "WRONG result",
    "?": "VOID",
}
"""A scenario's letter -> its name."""

MEANINGS: Final[Mapping[str, str]] = {
    ".": CODES["."],
    "D": "an effect crossed again with the same action",
    "V": "an effect crossed with another action, or one crossed that never does",
    "L": "the run ended and an effect never crossed",
    "W": "each effect once, but what was returned is not what a run without a crash returns",
    "?": "it hung, kept failing, or was not deterministic",
}
"""A scenario's letter -> what it says."""

BASES: Final[Mapping[str, str]] = {
    "IN_PROCESS": (
        "no process died: a crash was an exception in this process, and the receivers were models"
    ),
    "KILLED": "real processes were killed, and the receivers were processes with a sealed ledger",
}
"""A sweep's basis -> what it rests on."""


def summary(sweep: Mapping[str, Any], *, seconds: float | None = None) -> str:
    """The printed result of a sweep; `seconds` is how long it took, if that is to be said."""
    parts = [
        _title(sweep),
        _table(sweep),
        _legend(sweep),
        complaint(sweep) if sweep["failures"] or not sweep["clean"] else "",
        _last_line(sweep, seconds),
    ]
    return "\n\n".join(filter(None, parts))


def complaint(sweep: Mapping[str, Any]) -> str:
    """What is wrong, the scenario that shows it best, and how to run that again."""
    if not sweep["failures"]:
        return headline(sweep)
    worst = sweep["failures"][0]
    told = next((s for s in sweep["stories"] if s["id"] == worst["id"]), None)
    lines = [headline(sweep)]
    for fault in sweep.get("already", ()):
        lines += folded(f"Without any crash already: {plain(fault)}", WIDTH)
    lines += ["", *folded(f"Worst: {plain(worst['id'])}: {worst['said']}", WIDTH)]
    lines += _brief(sweep, worst) if told is None else _processes(told, sweep, whole=False)
    if told is not None:
        lines += ["", *_holdings(told, whole=False), *why(told)]
    lines += ["", *failing_points(sweep)]
    again = command(sweep, worst["id"])
    lines += [f"Again: {again}"] if again else []
    lines += [f"Repro: {plain(sweep['repro'])}"] if sweep["repro"] else []
    return "\n".join(lines)


def story(told: Mapping[str, Any], sweep: Mapping[str, Any]) -> str:
    """One scenario, process by process."""
    lines = [*folded(f"{plain(told['id'])}: {plain(told['said'])}", WIDTH)]
    lines += [part for remark in told["remarks"] for part in folded(plain(remark), WIDTH)]
    lines += _processes(told, sweep, whole=True)
    lines += ["", *_holdings(told, whole=True), *why(told)]
    again = command(sweep, told["id"])
    return "\n".join([*lines, "", f"Again: {again}"] if again else lines)


def headline(sweep: Mapping[str, Any]) -> str:
    """How many scenarios are not exactly once, or that all are."""
    failed = sum(n for code, n in sweep["outcomes"].items() if code != ".")
    total, job = sweep["scenarios"], plain(sweep["job"])
    if not total:
        return f"{job}: no scenario was run, so nothing is shown"
    if not failed and not sweep["clean"]:
        return f"{job}: no receiver saw an effect, even without a crash, so nothing is shown"
    if not failed:
        return f"{job}: {plural(total, 'crash scenario')}, all exactly once"
    share = f"{count(failed)} of {plural(total, 'crash scenario')}"
    return f"{job}: {share} not exactly once ({counted(sweep)})"


def counted(sweep: Mapping[str, Any]) -> str:
    """The failing scenarios by name, worst first: "3 LOST, 12 DUPLICATED"."""
    outcomes = sweep["outcomes"]
    return ", ".join(f"{count(outcomes[c])} {NAMES[c]}" for c in WORST_FIRST if outcomes.get(c))


def command(sweep: Mapping[str, Any], scenario_id: str) -> str:
    """The command that runs one scenario again, as one would type it; empty if there is none."""
    if not sweep["again"]:
        return ""
    return f"{sweep['again']} {shlex.quote(sweep['prefix'] + scenario_id)}"


def failing_points(sweep: Mapping[str, Any]) -> list[str]:
    """At which points a single crash fails, with their places."""
    failing = [first for first in sweep["firsts"] if first["code"] != "."]
    number = f"{len(failing)} of {plural(len(sweep['firsts']), 'point')}"
    once = "One crash"
    if sweep["fault"] not in AT_POINTS:
        once = f"The fault {sweep['fault']}"
        number = f"{len(failing)} of {plural(len(sweep['firsts']), 'place')}"
    if not failing:
        return [f"{once} alone does no harm: it takes another crash."]
    places = sweep["places"]
    lines = [f"{once} is enough at {number}:"]
    rows = [
        (f"{first['n']}-{plain(first['name'])}", NAMES[first["code"]], place_of(places, first["n"]))
        for first in failing[:SHOWN]
    ]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    lines += [
        f"  {point:<{widths[0]}}  {outcome:<{widths[1]}}  {place}".rstrip()
        for point, outcome, place in rows
    ]
    if len(failing) > SHOWN:
        lines.append(f"  and {len(failing) - SHOWN} more")
    return [*lines, ""]


def collapsed(names: Sequence[str]) -> list[str]:
    """Points in a row with repetitions folded: a, b, a, b, a, b becomes (a, b) x 3."""
    folds: list[str] = []
    at = 0
    while at < len(names):
        period, times = _repetition(names, at)
        part = ", ".join(names[at : at + period])
        if times == 1:
            folds.append(part)
        else:
            folds.append(f"({part}) x {times}" if period > 1 else f"{part} x {times}")
        at += period * times
    return folds


def _repetition(names: Sequence[str], at: int) -> tuple[int, int]:
    """The period and number of what repeats here and saves most; (1, 1) if nothing does."""
    best = (1, 1)
    for period in range(1, 13):
        unit = names[at : at + period]
        times = 1
        while names[at + times * period : at + (times + 1) * period] == unit and unit:
            times += 1
        if times > 1 and period * (times - 1) > best[0] * (best[1] - 1):
            best = (period, times)
    return best


def _title(sweep: Mapping[str, Any]) -> str:
    firsts = sweep["firsts"]
    once = len(firsts)
    twice = sum(len(first["again"]) for first in firsts)
    deeper = sweep["scenarios"] - once - twice
    parts = [f"{count(once)} with one crash", f"{count(twice)} with two"]
    parts += [f"{count(deeper)} with more"] if deeper else []
    about = (
        f"sweep of {plain(sweep['job'])}: {sweep['fault']}, mode {sweep['mode']} "
        f"({sweep['basis']}), depth {sweep['depth']}"
    )
    numbers = f"{plural(len(sweep['points']), 'point')}, {plural(sweep['scenarios'], 'scenario')}"
    lines = [about, f"{numbers}: {', '.join(parts)}" if sweep["scenarios"] else numbers]
    if sweep["basis"] in BASES:
        lines += folded(f"{sweep['basis']}: {BASES[sweep['basis']]}.", WIDTH)
    return "\n".join(lines)


def _table(sweep: Mapping[str, Any]) -> str:
    """A line a first crash: number, name, place, what it came to, and the second crashes."""
    places = sweep["places"]
    rows = [("", "point", "place", "once", "crashed again")]
    rows += [
        (
            str(first["n"]),
            plain(first["name"]),
            place_of(places, first["n"]),
            first["code"],
            _codes(first["again"]),
        )
        for first in sweep["firsts"]
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = []
    for n, (number, name, place, once, again) in enumerate(rows):
        cells = [
            number.rjust(widths[0]),
            name.ljust(widths[1]),
            place.ljust(widths[2]),
            once.ljust(widths[3]),
            again,
        ]
        lines.append("  ".join(cells).rstrip())
        if n == 0:
            lines.append("-" * (sum(widths) + 8 + len("crashed again")))
    return "\n".join(lines)


def _codes(codes: str) -> str:
    """A row of letters, or how many of each follow each other when that is shorter."""
    if len(codes) <= 40:
        return codes
    return " ".join(f"{code}*{len(list(run))}" for code, run in groupby(codes))


def _legend(sweep: Mapping[str, Any]) -> str:
    met = [code for code in CODES if sweep["outcomes"].get(code)]
    return "\n".join(f"{code}  {NAMES[code]}: {MEANINGS[code]}" for code in met)


def _last_line(sweep: Mapping[str, Any], seconds: float | None) -> str:
    took = ""
    if seconds:
        took = f" in {seconds:.1f} s ({sweep['scenarios'] / seconds:,.0f}/s)"
    work = (
        f"{plural(sweep['processes'], 'process', 'processes')}, "
        f"{plural(sweep['recovered'], 'world')} recovered"
    )
    partial = "" if sweep["complete"] else "PARTIAL: not every scenario was run. "
    verdict = counted(sweep) or ("all exactly once" if sweep["clean"] else "nothing is shown")
    scenarios = plural(sweep["scenarios"], "scenario")
    return "\n".join(folded(f"{partial}{scenarios}{took}, {work}: {verdict}.", WIDTH))


def _brief(sweep: Mapping[str, Any], worst: Mapping[str, Any]) -> list[str]:
    """The crashes of a scenario that is not told."""
    lines = []
    for number, (n, name) in enumerate(zip(worst["path"], worst["names"], strict=True), start=1):
        place = place_of(sweep["places"], n) if number == 1 else ""
        died = {"n": n, "name": name, "place": place}
        lines += _died(number, "start" if number == 1 else "resume", died, sweep)
    return lines


def _processes(told: Mapping[str, Any], sweep: Mapping[str, Any], *, whole: bool) -> list[str]:
    lines = []
    for n, process in enumerate(told["processes"], start=1):
        died = process["died"]
        if died is not None:
            lines += _died(n, process["entry"], died, sweep)
        else:
            said = f": {_short(process['said'])}" if process["said"] else ""
            met = ""
            if n == 1 and told["fault"] not in AT_POINTS:
                met = f"met {plain(told['names'][0])}, "
            ended = f"  {n}. {process['entry']}: {met}{process['when']}{said}"
            lines += folded(ended, WIDTH, rest="     ")
        lines += _did(process, whole=whole)
    for request in told["late"]:
        late = f"     done late: {request_line(request)}"
        lines += folded(late, WIDTH, rest="       ")
    return lines


def _died(number: int, entry: str, died: Mapping[str, Any], sweep: Mapping[str, Any]) -> list[str]:
    what = f"at point {died['n']}, {plain(described(died['name']))}"
    if number == 1 and sweep["fault"] not in AT_POINTS:
        what = f"waiting, of the fault {plain(died['name'])}"
    lines: list[str] = folded(f"  {number}. {entry}: died {what}", WIDTH, rest="     ")
    if died["place"]:
        lines.append(f"     {_in_code(plain(died['place']))}")
    return lines


def _did(process: Mapping[str, Any], *, whole: bool) -> Iterator[str]:
    """What a process did that lasts: requests, and in a whole story points and files as well."""
    if whole and process["names"]:
        skipped = process["points"] - len(process["names"])
        first = f"passed {plural(process['points'], 'point')}: "
        first += f"... {skipped} not shown ..., " if skipped else ""
        names = [plain(name) for name in process["names"]]
        text = f"{first}{', '.join(collapsed(names))}"
        yield from folded(text, WIDTH, first="     ", rest="       ")
    requests = process["requests"] if whole else process["requests"][:SHOWN]
    for request in requests:
        yield from folded(request_line(request), WIDTH, first="     ", rest="       ")
    if len(requests) < len(process["requests"]):
        yield f"     and {len(process['requests']) - len(requests)} more requests"
    if whole:
        for change in process["changes"]:
            yield from folded(change_line(change), WIDTH, first="     ", rest="       ")
        for line in process["printed"].splitlines()[-SHOWN:]:
            yield f"     | {_short(line)}"


def request_line(request: Mapping[str, Any]) -> str:
    """A request and what the receiver did with it."""
    if request["did"] == "asked":
        asked = request["args"]
        return f"asked a person about {_short(_call(asked['op'], asked['args']))}"
    key = f", key {_short(request['key'], 40)}" if request["key"] is not None else ", no key"
    number = f" as {request['id']}" if request["id"] is not None else ""
    did = {
        "acted": f"done{number}",
        "repeated": f"known already{number}, nothing done",
        "refused": "refused, nothing done",
    }.get(request["did"], request["did"])
    return f"sent {_short(_call(request['op'], request['args']))}{key}: {did}"


def _call(op: str, args: Any) -> str:
    if not isinstance(args, Mapping):
        return f"{op} {args}"
    return f"{op}({', '.join(f'{name}={value!r}' for name, value in args.items() if value != '')})"


def change_line(change: Mapping[str, Any]) -> str:
    """A file that was made, changed or removed."""
    path = plain(change["path"])
    if change["what"] == "removed":
        return f"removed {path}"
    size = plural(change["size"], "byte")
    text = "" if change["after"] is None else f": {_short(change['after'])}"
    return f"{change['what']} {path}, {size}{text}"


def _holdings(told: Mapping[str, Any], *, whole: bool) -> Iterator[str]:
    """What the receivers hold in the end, beside a run without a crash."""
    wrong = [effect for effect in told["effects"] if effect["now"] != effect["clean"]]
    shown = told["effects"] if whole else wrong[:SHOWN]
    head = "In the end the receivers hold"
    if shown:
        names = [_short(effect["name"], 70) for effect in shown]
        width = max(len(head), *(len(name) + 2 for name in names))
        yield f"{head:<{width}}  without a crash  now"
        for name, effect in zip(names, shown, strict=True):
            line = f"  {name:<{width - 2}}  {effect['clean']:>15}  {effect['now']:>3}"
            yield f"{line}  {_surplus(effect['now'] - effect['clean'])}".rstrip()
        others = len(told["effects"]) - len(shown)
        if others:
            yield (
                f"  and {others} more, as often as without a crash"
                if len(wrong) <= SHOWN
                else (f"  and {others} more")
            )
    elif told["effects"]:
        effects = plural(len(told["effects"]), "effect")
        yield f"{head} {effects}, each as often as without a crash"
    else:
        yield f"{head} nothing"
    yield from results_line(told)
    for noun, counts in (("question", told["asks"]), ("model call", told["model_calls"])):
        surplus = counts["now"] - counts["clean"]
        if whole and surplus:
            yield f"{plural(counts['now'], noun)}, {counts['clean']} without a crash"


def why(told: Mapping[str, Any]) -> Iterator[str]:
    """What the requests themselves say about an effect that is there too often or not at all."""
    requests = [request for process in told["processes"] for request in process["requests"]]
    requests += told["late"]
    reasons: dict[str, None] = {}
    for effect in told["effects"]:
        sent = [r for r in requests if r["effect"] == effect["name"]]
        if effect["now"] > effect["clean"] > 0:
            reasons[_why_again([r for r in sent if r["did"] == "acted"])] = None
        elif effect["now"] < effect["clean"] and told["code"] != "?":
            reasons[_why_missing(sent)] = None
    for reason in reasons:
        yield from folded(f"Why: {reason}", WIDTH, rest="     ")


def _why_again(acted: Sequence[Mapping[str, Any]]) -> str:
    keys = {request["key"] for request in acted}
    if keys == {None}:
        return "it was sent again without a key, so the receiver could not know it for a repeat."
    if None in keys or len(keys) > 1:
        return (
            "it was sent again under another key, so the receiver could not know it for a repeat."
        )
    return "it was sent again under the same key, and this receiver does not keep keys (for ever)."


def _why_missing(sent: Sequence[Mapping[str, Any]]) -> str:
    if any(request["did"] == "repeated" for request in sent):
        return "its key had been used for something else, so the receiver took it for a repeat."
    return (
        "no process sent it: what was saved said that it was done, or nothing said that it was not."
    )


def results_line(told: Mapping[str, Any]) -> Iterator[str]:
    """What the program returned, if that is not what it returns without a crash."""
    results = told["results"]
    if results["clean"] != results["now"]:
        clean = _short(results["clean"] or "nothing")
        now = _short(results["now"] or "nothing")
        yield from folded(f"It returned {now}; without a crash, {clean}", WIDTH)


def _surplus(surplus: int) -> str:
    if not surplus:
        return ""
    return f"{abs(surplus)} {'too many' if surplus > 0 else 'missing'}"


def located(place: str) -> tuple[str, str, str]:
    """File, line and function of a place in code; empty texts where it does not say.

    Programs in other languages say themselves where they stand, some without a function, and they
    may say anything.
    """
    found = PLACE.fullmatch(place)
    return (found["file"], found["line"], found["function"] or "") if found else ("", "", "")


def place_of(places: Sequence[str], n: int) -> str:
    """`agent.py:16` of the n-th point; what was said of it where that is of another form."""
    place = places[n - 1] if n <= len(places) else ""
    file, line, _ = located(place)
    return plain(f"{file}:{line}" if file else place)


def _in_code(place: str) -> str:
    file, line, function = located(place)
    return f"{file}:{line}, in {function}" if function else place


def _short(value: Any, most: int = TEXT_MAX) -> str:
    """A value on one line, cut in the middle."""
    text = plain(value)
    if len(text) <= most:
        return text
    half = (most - 5) // 2
    return f"{text[:half]} ... {text[-half:]}"
