"""The result of a matrix as plain text, at most 100 columns wide where names allow it.

For a terminal, a log and a fenced block alike: no colour, no control characters, ASCII only but for
what names contain.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from crashpoint.report.view import Cell, View, interval
from crashpoint.report.words import READING, RECOVERING, count, duration, folded, plain, plural

__all__ = ["matrix", "reading"]

WIDTH: Final = 100
GAP: Final = "  "


def matrix(document: Mapping[str, Any], *, seconds: float | None = None) -> str:
    """The printed result of a matrix document; `seconds` is how long the run took, if known.

    Raises KeyError for a document that lacks a member.
    """
    view = View.of(document)
    parts = [
        _title(view),
        _outcomes(view),
        _times(view),
        "\n".join(_bulleted("controls", view.controls())),
        "\n".join(_bulleted("findings", view.findings() or ["none"])),
        "\n".join(_bulleted("remarks", view.remarks())),
        reading(),
        _last_line(view, seconds),
    ]
    return "\n\n".join(filter(None, parts))


def reading() -> str:
    """How to read the result, in three lines."""
    return "\n".join(folded(f"How to read it: {READING}", WIDTH))


def _title(view: View) -> str:
    document = view.document
    about = f"{plain(document['name'])}: {document['fault']} at {', '.join(view.barriers)}"
    lines = [f"{about}, {plural(document['k'], 'trial')} a cell", *view.engines()]
    folds = [part for line in lines for part in folded(line, WIDTH, rest="    ")]
    return "\n".join([*folds, *_command(plain(document["command"]))])


def _command(command: str) -> Iterator[str]:
    """The command over several lines so that it can still be pasted into a shell."""
    try:
        words = [shlex.quote(word) for word in shlex.split(command)]
    except ValueError:  # no shell would take it either
        words = [command]
    line = ""
    for word in words:
        if line and len(line) + len(word) + len(" \\") >= WIDTH:
            yield f"{line} \\"
            line = "   "
        line += f"{' ' if line else ''}{word}"
    yield line


def _outcomes(view: View) -> str:
    headings = ["row", "at", "predicted", "observed", "hits", "95% interval", "VOID", "agrees"]
    lines, remarks = [headings], {}
    for n, cell in enumerate(view.cells, 1):
        lines.append(
            [
                *_place(view, cell),
                cell.predicted,
                _observed(cell),
                f"{cell.hits}/{cell.k}",
                interval(cell),
                count(cell.void),
                "yes" if cell.agrees else "NO",
            ]
        )
        if len(cell.counts) > 1:
            remarks[n] = cell.counted()
    return _table(lines, right=(4, 5, 6), below=remarks)


def _observed(cell: Cell) -> str:
    if cell.as_predicted:
        return "as predicted"
    if len(cell.counts) == 1 and not cell.not_run:
        return cell.observed
    return "mixed" if cell.counts else "not run"


def _times(view: View) -> str:
    columns = [(mode, name) for mode in ("hot", "cold") for name in ("median", "p95", "max", "n")]
    shown = [
        (mode, name)
        for mode, name in columns
        if any(name in (cell.recover(mode) or ()) for cell in view.cells)
    ]
    if not shown:
        return ""
    lines = [["row", "at", *(f"{mode} {name}" for mode, name in shown)]]
    lines += [
        [*_place(view, cell), *(_time(cell.recover(mode), name) for mode, name in shown)]
        for cell in view.cells
    ]
    table = _table(lines, right=range(2, len(lines[0])))
    waits = _bulleted("waits that the engine forces on a recovery", view.waits())
    return "\n".join([*folded(RECOVERING, WIDTH), "", table, *waits])


def _time(times: Mapping[str, int] | None, name: str) -> str:
    if times is None or name not in times:
        return "-"
    return count(times[name]) if name == "n" else duration(times[name])


def _last_line(view: View, seconds: float | None) -> str:
    took = "" if seconds is None else f" in {seconds:.1f} s"
    trials = plural(view.trials, "trial")
    line = f"{trials}{took}{view.totals().removeprefix(trials)}: {view.verdict()}."
    return "\n".join(folded(f"{line} Exit status {view.exit_code}.", WIDTH))


def _place(view: View, cell: Cell) -> list[str]:
    """Row and barrier, the row's name only on its first line."""
    first = cell.barrier == view.barriers[0]
    return [plain(cell.row) if first else "", cell.barrier]


def _bulleted(title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield f"{title}:"
    for line in lines:
        yield from folded(line, WIDTH, first="  - ", rest="    ")


def _table(
    lines: Sequence[Sequence[str]],
    *,
    right: Sequence[int],
    below: Mapping[int, str] = MappingProxyType({}),
) -> str:
    """Aligned columns under a rule; those in `right` end flush, `below` follows its line."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    done = []
    for n, line in enumerate(lines):
        cells = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        done.append(GAP.join(cells).rstrip())
        if n == 0:
            done.append("-" * (sum(widths) + len(GAP) * (len(widths) - 1)))
        if n in below:
            done.append(" " * (sum(widths[:3]) + 3 * len(GAP)) + below[n])
    return "\n".join(done)
