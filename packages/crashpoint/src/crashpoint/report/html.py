"""A matrix as one self-contained page: tables, every trial's story, and no request to anywhere.

What it is put together by, `page`, escapes what comes from the document.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from crashpoint.model import Takeover
from crashpoint.report import story
from crashpoint.report.page import rendered
from crashpoint.report.palette import MEANING
from crashpoint.report.view import Cell, View, interval
from crashpoint.report.words import READING, RECOVERING, count, duration, plain, plural

__all__ = ["page"]

SHARE_WIDTH, TIMES_WIDTH = 120, 220
"""Pixels of the small drawings beside the figures."""
NO_BREAK: Final = "\N{NO-BREAK SPACE}"
COLUMNS: Final = ("outcome", "ending", "result", "recovery", "time to recover", "why VOID")


def page(document: Mapping[str, Any]) -> str:
    """The page of a matrix document. Raises KeyError for one that lacks a member."""
    view = View.of(document)
    groups = _Groups()
    facts = _facts(view, groups)  # fills the groups, so the data comes after it
    return rendered(
        "matrix.html.j2",
        styles=["matrix.css"],
        script="matrix.js",
        data=groups.as_json(),
        facts=facts,
    )


class _Groups:
    """The trials behind each cell, with every text kept once: most of them recur."""

    def __init__(self) -> None:
        self._words: dict[str, int] = {}
        self._groups: list[dict[str, Any]] = []

    def add(self, name: str, title: str, trials: Iterable[Mapping[str, Any]]) -> int:
        """Keep a group of trials and return its number."""
        self._groups.append(
            {"id": name, "title": title, "trials": [self._trial(trial) for trial in trials]}
        )
        return len(self._groups) - 1

    def as_json(self) -> dict[str, Any]:
        """What the script reads."""
        return {"columns": COLUMNS, "words": list(self._words), "groups": self._groups}

    def _trial(self, trial: Mapping[str, Any]) -> dict[str, Any]:
        verdict, seen = trial["verdict"], trial["seen"]
        took = duration(seen["recover_us"]) if "recover_us" in seen else ""
        shown = (
            verdict["effects"],
            verdict["ending"],
            verdict["result"],
            seen["mode"],
            took,
            verdict.get("void", ""),
        )
        told = [word for step in story.steps(trial) for word in step]
        return {
            "name": plain(trial["trial"]),
            "shown": [self._index(plain(word)) for word in shown],
            "story": [self._index(word) for word in told],
        }

    def _index(self, word: str) -> int:
        return self._words.setdefault(word, len(self._words))


def _facts(view: View, groups: _Groups) -> dict[str, Any]:
    document = view.document
    rows = [_row(view, row, groups) for row in document["rows"]]
    return {
        "name": plain(document["name"]),
        "fault": document["fault"],
        "crashpoint": document["crashpoint"],
        "started": document["started"],
        "command": plain(document["command"]),
        "totals": view.totals(),
        "verdict": view.verdict(),
        "good": view.exit_code == 0 and document["complete"],
        "reading": READING,
        "barriers": view.barriers,
        "rows": rows,
        "meanings": MEANING.items(),
        "findings": view.findings(),
        "controls": view.controls(),
        "others": list(_others(document, groups)),
        "recovering": RECOVERING,
        "times": _times(view),
        "waits": view.waits(),
        "fields": [field.replace("_", " ") for field in _declared(document)],
        "predicted_at": list(document["rows"][0]["predicted"]),
        "remarks": view.remarks(),
        "context": list(_context(view)),
    }


def _row(view: View, row: Mapping[str, Any], groups: _Groups) -> dict[str, Any]:
    cells = [cell for cell in view.cells if cell.row == row["name"]]
    return {
        "name": plain(row["name"]),
        "engine": plain(row["engine"]),
        # Only the takeover may be left out.
        "declares": [
            row["declaration"].get(field, Takeover.WHILE_ALIVE.value)
            for field in _declared(view.document)
        ],
        "predicted": list(row["predicted"].values()),
        "cells": [_cell(view, cell, groups) for cell in cells],
    }


def _declared(document: Mapping[str, Any]) -> Sequence[str]:
    """The questions that some row answers."""
    return list(dict.fromkeys(field for row in document["rows"] for field in row["declaration"]))


def _cell(view: View, cell: Cell, groups: _Groups) -> dict[str, Any]:
    trials = [
        trial
        for trial in view.document["trials"]
        if (trial["row"], trial["barrier"]) == (cell.row, cell.barrier)
    ]
    where = plain(cell.where)
    return {
        "of": cell,
        "group": groups.add(f"{plain(cell.row)}.{cell.barrier}", where, trials),
        "interval": interval(cell),
        "counted": "as predicted" if cell.as_predicted else cell.counted(),
        "low": _pixels(cell.low, SHARE_WIDTH),
        "high": _pixels(cell.high, SHARE_WIDTH),
        "share": _pixels(cell.hits / cell.k, SHARE_WIDTH),
    }


def _others(document: Mapping[str, Any], groups: _Groups) -> Iterator[dict[str, Any]]:
    for name, one, several in (
        ("references", "uncrashed run", "uncrashed runs"),
        ("control_trials", "trial of a control", "trials of a control"),
    ):
        trials = document[name]
        title = plural(len(trials), one, several)
        if trials:
            yield {"group": groups.add(name, title, trials), "title": title}


def _times(view: View) -> dict[str, Any] | None:
    found = [times for cell in view.cells for times in (cell.hot, cell.cold) if times]
    if not found:
        return None
    first = math.floor(math.log10(min(times["median"] for times in found)))
    last = max(first + 1, math.ceil(math.log10(max(times["max"] for times in found))))

    def at(us: int) -> float:
        return _pixels((math.log10(max(us, 1)) - first) / (last - first), TIMES_WIDTH)

    return {
        "low": duration(10**first).replace(" ", NO_BREAK),
        "high": duration(10**last).replace(" ", NO_BREAK),
        "grid": [at(10**power) for power in range(first, last + 1)],
        "lines": [
            {
                "row": plain(cell.row),
                "barrier": cell.barrier,
                "values": list(_values(cell)),
                "hot": (at(cell.hot["median"]), at(cell.hot["max"])) if cell.hot else None,
                "cold": at(cell.cold["median"]) if cell.cold else None,
            }
            for cell in view.cells
        ],
    }


def _values(cell: Cell) -> Iterator[str]:
    for times, names in (
        (cell.hot, ("median", "p95", "max", "n")),
        (cell.cold, ("median", "max", "n")),
    ):
        for name in names:
            if times is None or name not in times:
                yield "-"
            else:
                yield count(times[name]) if name == "n" else duration(times[name])


def _context(view: View) -> Iterator[tuple[str, str]]:
    document = view.document
    machine, source = document["machine"], document["source"]
    yield "started", document["started"]
    yield "fault, k", f"{document['fault']}, {document['k']}"
    yield "trials at once", str(document["jobs"])
    yield "cold recoveries", f"{document['cold']} a cell"
    yield "time limit", f"{document['limit_s']:g} s for a process"
    yield "VOID limit", f"{document['void_max']:.0%} of a cell"
    for line in view.engines():
        name, _, versions = line.partition(": ")
        yield name, versions
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
    for facts in document["engines"].values():
        for name, its in facts["subject"].get("sources", {}).items():
            yield (
                f"source of {plain(name)}",
                plain(f"sha256:{its['digest']} ({clean[its['clean']]})"),
            )
    yield "lock", f"sha256:{document['lock']}" if document["lock"] else "none"
    yield "predictions", f"sha256:{document['predictions']}"
    yield "receipt", document["receipt"]


def _pixels(share: float, width: int) -> float:
    return round(max(0.0, min(1.0, share)) * width, 1)
