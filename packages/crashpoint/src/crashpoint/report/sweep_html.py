"""A sweep as one self-contained page: its points, the grid of second crashes, and stories to read.

What it is put together by, `page`, escapes what comes from the document.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from crashpoint.report.page import rendered
from crashpoint.report.sweep_text import (
    BASES,
    MEANINGS,
    NAMES,
    change_line,
    collapsed,
    command,
    counted,
    headline,
    place_of,
    request_line,
    results_line,
    why,
)
from crashpoint.report.words import count, plain, plural
from crashpoint.sweep.report import CODES, OUTCOMES, WORST_FIRST, described
from crashpoint.sweep.words import id_of, kind_of

__all__ = ["page"]

CELLS_MAX: Final = 20_000
"""Second crashes that are drawn one by one; a larger grid is told as text."""
NAMES_SHOWN: Final = 60
TEXT_MAX: Final = 600
READING: Final = (
    "A row is a point at which the first process was crashed, in the order in which the program"
    " passes them. Its colour is what came of that single crash, once the restart had ended. The"
    " bar beside it shows what came of crashing the restart as well, once at each point it reaches."
)
GRID_READING: Final = (
    "A square is a scenario with two crashes: the row is the first, the place in the row is the"
    " point at which the restart was crashed. Rows end with the restart's last point, so what"
    " stands below each other is the same stretch of the program. Arrow keys move, Enter opens."
)


def page(document: Mapping[str, Any]) -> str:
    """The page of a sweep's document. Raises KeyError for one that lacks a member."""
    return rendered(
        "sweep.html.j2",
        styles=["matrix.css", "sweep.css"],
        script="sweep.js",
        data=_data(document),
        facts=_facts(document),
    )


def _data(document: Mapping[str, Any]) -> dict[str, Any]:
    """What the script needs in order to say what a square is."""
    return {
        "names": NAMES,
        "classes": {code: _class(code) for code in CODES},
        "again": plain(document["again"]),
        "prefix": document["prefix"],
        "rows": [
            {
                "n": first["n"],
                "id": id_of([first["n"]], [first["name"]]),
                "code": first["code"],
                "again": first["again"],
                "ids": [id_of([n], [name]) for n, name in enumerate(first["names"], start=1)],
            }
            for first in document["firsts"]
        ],
        "said": {plain(f["id"]): plain(f["said"]) for f in document["failures"]},
    }


def _facts(document: Mapping[str, Any]) -> dict[str, Any]:
    outcomes = document["outcomes"]
    shown = [code for code in (".", *WORST_FIRST) if outcomes.get(code)]
    cells = sum(len(first["again"]) for first in document["firsts"])
    return {
        "name": plain(document["job"]),
        "crashpoint": document["crashpoint"],
        "started": document["started"],
        "command": plain(document["command"]),
        "headline": headline({**document, "job": plain(document["job"])}),
        "good": not counted(document) and document["clean"] and document["complete"],
        "partial": not document["complete"],
        "numbers": [(_class(code), NAMES[code], count(outcomes[code])) for code in shown],
        "shares": list(_shares(outcomes, shown)),
        "reading": READING,
        "grid_reading": GRID_READING,
        "legend": [(code, _class(code), NAMES[code], MEANINGS[code]) for code in CODES],
        "has_places": bool(document["places"]),
        "rows": [_row(document, first) for first in document["firsts"]],
        "grid": _grid(document) if 0 < cells <= CELLS_MAX else None,
        "cells": cells,
        "stories": [_story(document, told) for told in document["stories"]],
        "kept": len(document["failures"]),
        "context": list(_context(document)),
    }


def _row(document: Mapping[str, Any], first: Mapping[str, Any]) -> dict[str, Any]:
    """A point: what came of one crash there, and of a second one."""
    again = Counter(first["again"])
    failed = sum(n for code, n in again.items() if code != ".")
    return {
        "n": first["n"],
        "id": id_of([first["n"]], [first["name"]]),
        "name": plain(first["name"]),
        "meaning": plain(described(kind_of(first["name"]))),
        "place": place_of(document["places"], first["n"]),
        "code": first["code"],
        "kind": _class(first["code"]),
        "outcome": NAMES[first["code"]],
        "bar": list(_shares(again, (*WORST_FIRST, "."))),
        "failed": f"{failed} of {len(first['again'])}" if first["again"] else "",
        "codes": first["again"],
    }


def _shares(counts: Mapping[str, int], order: Sequence[str]) -> Iterator[tuple[str, float, float]]:
    """Style, beginning and width of each part of a bar that is 100 wide."""
    total = sum(counts.values())
    at = 0.0
    for code in order:
        width = 100 * counts.get(code, 0) / total if total else 0.0
        if width:
            yield _class(code), round(at, 2), round(width, 2)
        at += width


def _grid(document: Mapping[str, Any]) -> dict[str, Any]:
    width = max(len(first["again"]) for first in document["firsts"])
    return {
        "width": width,
        "rows": [
            {
                "n": first["n"],
                "name": plain(first["name"]),
                "pad": width - len(first["again"]),
                "cells": [(_class(code), code) for code in first["again"]],
            }
            for first in document["firsts"]
        ],
    }


def _story(document: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
    wrong = [effect for effect in told["effects"] if effect["now"] != effect["clean"]]
    return {
        "id": plain(told["id"]),
        "kind": _class(told["code"]),
        "outcome": NAMES[told["code"]],
        "said": plain(told["said"]),
        "steps": [*_steps(told), *_late(told)],
        "effects": [
            {
                "name": plain(effect["name"]),
                "clean": effect["clean"],
                "now": effect["now"],
                "is_wrong": effect in wrong,
            }
            for effect in told["effects"]
        ],
        "remarks": [
            *map(plain, told["remarks"]),
            *map(plain, results_line(told)),
            *map(plain, why(told)),
        ],
        "again": plain(command(document, told["id"])),
    }


def _steps(told: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Kind, text and class of what happened, in order."""
    for n, process in enumerate(told["processes"], start=1):
        shown = process["names"][-NAMES_SHOWN:]
        skipped = process["points"] - len(shown)
        names = ", ".join(collapsed([plain(name) for name in shown]))
        passed = f"{plural(process['points'], 'point')}: " + ("... " if skipped else "") + names
        yield process["entry"], f"process {n}", "is-entry"
        yield "passed", passed if process["points"] else "no point", ""
        for request in process["requests"]:
            kind, _, text = request_line(request).partition(" ")
            yield kind, text, f"is-{request['did']}"
        for change in process["changes"]:
            yield "files", _cut(change_line(change)), ""
        if process["printed"].strip():
            yield "printed", _cut(plain(process["printed"].strip().splitlines()[-1])), ""
        died = process["died"]
        if died is not None:
            place = f", in {plain(died['place'])}" if died["place"] else ""
            at = f"at point {died['n']}, {plain(described(died['name']))}{place}"
            yield "died", at, "is-fault"
        else:
            said = f": {_cut(plain(process['said']))}" if process["said"] else ""
            yield (
                "ended" if process["when"] == "ended" else "broke",
                f"{process['when']}{said}",
                ("" if process["when"] == "ended" else "is-fault"),
            )


def _late(told: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for request in told["late"]:
        yield "late", request_line(request), f"is-{request['did']}"


def _context(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    machine, source = document["machine"], document["source"]
    yield "started", document["started"]
    yield "fault, depth", f"{document['fault']}, {document['depth']}"
    yield "mode", f"{document['mode']} ({document['basis']}): {BASES.get(document['basis'], '')}"
    yield (
        "work",
        (
            f"{plural(document['processes'], 'process', 'processes')}, "
            f"{plural(document['recovered'], 'world')} recovered; equal worlds are recovered once"
        ),
    )
    yield (
        "machine",
        plain(
            f"{machine['cpu']}, {machine['cores']} cores, {machine['system']} {machine['kernel']},"
            f" Python {machine['python']}"
        ),
    )
    clean = {True: "clean", False: "with uncommitted changes", None: "no git checkout"}
    yield "commit", f"{source['commit'] or 'none'} ({clean[source['clean']]})"
    yield "source", f"sha256:{source['digest']}"
    yield "lock", f"sha256:{document['lock']}" if document["lock"] else "none"
    yield "receipt", document["receipt"]


def _class(code: str) -> str:
    """The style of a letter."""
    return "WRONG" if code == "W" else OUTCOMES[code].value


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]} ..."
