"""Figures for the documents, made from evidence: what a block in README.md or RESULTS.md holds.

Each renderer takes a document and the path under which a reader finds it, and names that path and
the command that made it. `scripts/check_figures.py` compares the blocks with these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final

from crashpoint.report import text
from crashpoint.report.view import Cell, View, interval, times
from crashpoint.report.words import plain

__all__ = ["FORMATS", "RENDERERS", "CannotRender", "render"]

MATRIX: Final = "crashpoint.matrix/1"
BENCH: Final = "crashpoint.bench/1"
DESIGNS: Final = {
    "once": "once",
    "twice": "twice",
    "with_dups": "with dups",
    "dups": "dups",
    "missing": "missing",
    "asks": "asks",
    "calls": "calls+",
}
"""Member of a row -> heading of its column."""


class CannotRender(ValueError):
    """There is no such renderer, or it does not fit the document; the message names what does."""


def render(name: str, document: Mapping[str, Any], path: str) -> str:
    """What renderer `name` makes of a document kept at `path` (POSIX, from the repository's root).

    Raises CannotRender for an unknown name, another format, or a document that lacks a member.
    """
    if name not in RENDERERS:
        raise CannotRender(f"no renderer {name!r}; there are {', '.join(RENDERERS)}")
    if document.get("format") != FORMATS[name]:
        raise CannotRender(
            f"{name} renders {FORMATS[name]}, but {path} is {document.get('format')!r}"
        )
    try:
        return RENDERERS[name](document, path)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CannotRender(f"{path} is malformed ({type(error).__name__}: {error})") from None


def _matrix(document: Mapping[str, Any], path: str) -> str:
    view = View.of(document)
    outcomes = _table(
        ["row", *view.barriers],
        ([_code(row), *(_outcome(cell) for cell in _cells(view, row))] for row in view.rows),
    )
    recoveries = _table(
        ["time to recover", *view.barriers],
        (
            [f"{_code(row)} {mode}", *(times(cell.recover(mode)) for cell in _cells(view, row))]
            for row in view.rows
            for mode in ("hot", "cold")
            if any(cell.recover(mode) for cell in _cells(view, row))
        ),
    )
    facts = [
        f"fault {document['fault']}",
        f"k = {document['k']}",
        view.totals(),
        *map(_safe, view.engines()),
        *map(_safe, view.remarks()),
    ]
    return f"{outcomes}\n\n{recoveries}\n\n{_source(document, path)}: {'; '.join(facts)}."


def _sentence(document: Mapping[str, Any], path: str) -> str:
    view = View.of(document)
    remarks = "".join(f"; {_safe(remark)}" for remark in view.remarks())
    return f"{view.totals()}{remarks} ({_source(document, path)})."


def _terminal(document: Mapping[str, Any], path: str) -> str:
    printed = text.matrix(document)
    fence = "```"
    while fence in printed:
        fence += "`"
    return f"{fence}text\n{printed}\n{fence}\n\n{_source(document, path)}."


def _picture(document: Mapping[str, Any], path: str) -> str:
    view = View.of(document)
    says = f"{plain(document['name'])}: {document['fault']}, {view.totals()}, {view.verdict()}"
    target = PurePosixPath(path).with_suffix(".png")
    return f"![{_safe(says)}]({target})\n\n{_source(document, path)}."


def _bench(document: Mapping[str, Any], path: str) -> str:
    rows = [
        [
            _safe(figure["what"]),
            _with_unit(figure["reached"], figure["unit"])
            + (" **not reached**" if figure.get("holds") is False else ""),
            _with_unit(figure["wanted"], figure["unit"]),
            _with_unit(figure["reference"], figure["unit"]),
        ]
        for figure in document["figures"]
    ]
    machine = document["machine"]
    if isinstance(machine, Mapping):
        machine = ", ".join(f"{name} {value}" for name, value in machine.items())
    table = _table(["what", "reached", "wanted", "beside"], rows)
    return f"{table}\n\n{_source(document, path)}: {_safe(machine)}."


def _designs(document: Mapping[str, Any], path: str) -> str:
    """The table, once for the modes that agree on it and apart for those that do not."""
    drawn: dict[str, list[str]] = {}
    for run in document["runs"]:
        drawn.setdefault(_design_table(run, flips=document["flips"]), []).append(run["mode"])
    tables = [f"By {', '.join(modes)}:\n\n{made}" for made, modes in drawn.items()]
    flips = f", with {', '.join(document['flips'])}" if document["flips"] else ""
    deduped = ", equal worlds recovered once" if document["dedupe"] else ""
    return "\n\n".join([*tables, f"{_source(document, path)}{flips}{deduped}."])


def _design_table(run: Mapping[str, Any], *, flips: Sequence[str]) -> str:
    rows = run["rows"]
    cells = [[_safe(row["variant"]), *(f"{row[name]:,}" for name in DESIGNS)] for row in rows]
    facts = [
        f"{_safe(row['variant'])}: duplicates at {row['single_dups']} of {row['once']} crash points"
        for row in rows
        if row["single_dups"]
    ]
    facts += [
        f"{_safe(row['variant'])}: {row['asks']:,} questions in "
        f"{row['once'] + row['twice']:,} scenarios"
        for row in rows
        if row["asks"]
    ]
    void = sum(row["void"] for row in rows)
    facts.append(f"{run['scenarios']:,} scenarios{f', {void} of them VOID' if void else ''}")
    if not flips:
        wrong = "; ".join(map(_safe, run["differences"]))
        facts.append(f"**not as published: {wrong}**" if wrong else _as_published(rows))
    return f"{_table(['', *DESIGNS.values()], cells)}\n\n{'; '.join(facts)}."


def _as_published(rows: Sequence[Any]) -> str:
    return f"all {len(rows) * len(DESIGNS)} cells as published"


def _programs(document: Mapping[str, Any], path: str) -> str:
    """A row for each program; modes that agree on it share one."""
    modes: dict[tuple[str, ...], list[str]] = {}
    for row in document["rows"]:
        caught = (
            "" if row["worst"] == row["expected"] else f" **expected {_safe(row['expected'])}**"
        )
        line = (
            _code(row["program"]),
            _safe(row["about"]),
            str(row["depth"]),
            f"{row['points']:,}",
            f"{row['scenarios']:,}",
            _safe(row["worst"]) + caught,
            f"{row['crashes']}: {_code(row['id'])}" if row["id"] else "",
        )
        modes.setdefault(line, []).append(row["mode"])
    lines = [[*line[:2], ", ".join(by), *line[2:]] for line, by in modes.items()]
    wrong = sum(row["worst"] != row["expected"] for row in document["rows"])
    total = sum(row["scenarios"] for row in document["rows"])
    facts = f"{len(document['rows'])} sweeps, {total:,} scenarios, {wrong} not as known before"
    deduped = ", equal worlds recovered once" if document["dedupe"] else ""
    headings = [
        *("program", "fault", "crashed by", "depth", "points", "scenarios"),
        *("worst outcome", "after so many crashes"),
    ]
    return f"{_table(headings, lines)}\n\n{facts} ({_source(document, path)}{deduped})."


RENDERERS: Final[Mapping[str, Callable[[Mapping[str, Any], str], str]]] = {
    "matrix": _matrix,
    "sentence": _sentence,
    "terminal": _terminal,
    "picture": _picture,
    "bench": _bench,
    "designs": _designs,
    "programs": _programs,
}
"""Name -> function from a document and its path to Markdown."""

FORMATS: Final[Mapping[str, str]] = dict.fromkeys(RENDERERS, MATRIX) | {
    "bench": BENCH,
    "designs": "crashpoint.designs/1",
    "programs": "crashpoint.programs/1",
}
"""Name of a renderer -> the format it takes."""


def _cells(view: View, row: str) -> list[Cell]:
    return [view.cell(row, barrier) for barrier in view.barriers]


def _outcome(cell: Cell) -> str:
    shown = f"{cell.shown} {cell.hits}/{cell.k} [{interval(cell)}]"
    return f"{shown} **{cell.alarm}**" if cell.alarm else shown


def _source(document: Mapping[str, Any], path: str) -> str:
    return f"[{path}]({path}), made by {_code(document['command'])}"


def _with_unit(value: Any, unit: str) -> str:
    """A number with its unit; a text as it is; nothing for None."""
    if value is None:
        return ""
    if isinstance(value, str):
        return _safe(value)
    digits = f"{value:,.0f}" if isinstance(value, int) or abs(value) >= 100 else f"{value:.3g}"
    return f"{digits} {_safe(unit)}".rstrip()


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _code(value: object) -> str:
    """A text as inline code, whatever it holds."""
    inside = plain(value).replace("|", "\\|")
    return f"`` {inside} ``" if "`" in inside else f"`{inside}`"


def _safe(value: object) -> str:
    """A text that Markdown shows as it is."""
    return "".join(f"\\{c}" if c in "\\`*_{}[]<>|" else c for c in plain(value))
