"""S3's table as it was published, and the command that measures it again.

`python -m crashpoint.sweep.designs` (this module is its main).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import click

from crashpoint.harness.closing import closed
from crashpoint.harness.context import command_line, context
from crashpoint.pipeline.evidence import render, write_atomically
from crashpoint.sweep.designs import Design, flipped
from crashpoint.sweep.engine import Sweep
from crashpoint.sweep.scratch import remove_what_is_left
from crashpoint.sweep.table import MODES, Row, as_table, count

__all__ = ["FORMAT", "PUBLISHED", "command", "fault_in"]

FORMAT: Final = "crashpoint.designs/1"
MODULE: Final = "crashpoint.sweep.designs"
FIELDS: Final = ("once", "twice", "with_dups", "dups", "missing", "asks", "calls")

PUBLISHED: Final[Mapping[str, tuple[int, ...]]] = MappingProxyType(
    {
        "save once per turn": (18, 225, 164, 294, 0, 0, 338),
        "save after the reply": (34, 654, 306, 360, 0, 0, 234),
        "+ idempotency keys": (34, 654, 0, 0, 0, 0, 234),
        "+ attempt markers, no keys": (43, 996, 0, 0, 0, 669, 288),
        "keys and markers": (43, 1014, 0, 0, 0, 0, 288),
    }
)
"""Each variant's seven columns; and of single crashes 8 of 18 and 9 of 34 leave a duplicate."""
SINGLE: Final[Mapping[str, int]] = MappingProxyType(
    {"save once per turn": 8, "save after the reply": 9}
)


def differences(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The cells that are not as published, a line each."""
    found = []
    for row in rows:
        wanted = dict(zip(FIELDS, PUBLISHED[row["variant"]], strict=True))
        wanted["single_dups"] = SINGLE.get(row["variant"], 0)
        found += [
            f"{row['variant']}: {name} is {row[name]}, published {value}"
            for name, value in wanted.items()
            if row[name] != value
        ]
    return found


def fault_in(document: Mapping[str, Any]) -> str | None:
    """Why a document's tables do not say what it claims, or None. Its seals are checked apart."""
    for run in document["runs"]:
        scenarios = sum(row["once"] + row["twice"] for row in run["rows"])
        if run["scenarios"] != scenarios:
            return f"{run['mode']}: {run['scenarios']} scenarios, the rows have {scenarios}"
        if run["differences"] != ([] if document["flips"] else differences(run["rows"])):
            return f"{run['mode']}: the differences are not the rows'"
    tables = [run["rows"] for run in document["runs"]]
    if any(table != tables[0] for table in tables) and document["agree"]:
        return "the modes do not agree"
    return None


@click.command("designs", context_settings={"show_default": True})
@click.option(
    "--mode",
    "modes",
    type=click.Choice([*MODES, "all"]),
    multiple=True,
    default=("raise",),
    help="How to crash: an exception in memory, an exception with real files, a killed fork.",
)
@click.option("--marks-again", is_flag=True, help="Save the marker again before a repeat.")
@click.option("--point-at-ask", is_flag=True, help="A crash point where a person is asked.")
@click.option("--dedupe/--no-dedupe", default=False, help="Recover equal worlds once.")
@click.option("--name", help="Write evidence under this name.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=Path("evidence"))
def command(
    modes: tuple[str, ...],
    *,
    marks_again: bool,
    point_at_ask: bool,
    dedupe: bool,
    name: str | None,
    out: Path,
) -> None:
    """Sweep the five designs and print the table; exit 1 when a cell is not as published.

    With a detail flipped another table is right, and nothing is compared.
    """
    designs = flipped(marks_again=marks_again, point_at_ask=point_at_ask)
    flips = [n for n, on in (("marks-again", marks_again), ("point-at-ask", point_at_ask)) if on]
    runs: list[dict[str, Any]] = []
    remove_what_is_left()
    for mode in MODES if "all" in modes else modes:
        begun = time.monotonic()
        rows = _run(mode, designs, dedupe=dedupe)
        seconds = time.monotonic() - begun
        scenarios = sum(row.once + row.twice for row in rows)
        click.echo(f"{mode}: {scenarios / seconds:,.0f} scenarios/s\n{as_table(rows)}\n")
        told = [asdict(row) for row in rows]
        runs.append(
            {
                "mode": mode,
                "scenarios": scenarios,
                "rows": told,
                "differences": [] if flips else differences(told),
            }
        )
    wrong = [f"{run['mode']}: {line}" for run in runs for line in run["differences"]]
    agree = all(run["rows"] == runs[0]["rows"] for run in runs)
    if name is not None:
        body = {
            "format": FORMAT,
            "kind": "designs",
            "name": name,
            **context(),
            "command": command_line(MODULE, sys.argv[1:]),
            "flips": flips,
            "dedupe": dedupe,
            "agree": agree,
            "runs": runs,
        }
        out.mkdir(parents=True, exist_ok=True)
        write_atomically(out / f"{name}.json", render(closed(body)))
        click.echo(f"wrote {out / f'{name}.json'}")
    for line in wrong:
        click.echo(line)
    if not agree:
        click.echo("the modes do not agree")
    if not flips and not wrong:
        click.echo("every cell is as published")
    sys.exit(1 if wrong or not agree else 0)


def _run(mode: str, designs: Sequence[Design], *, dedupe: bool) -> list[Row]:
    rows = []
    for design in designs:
        with MODES[mode](design) as crasher:
            sweep = Sweep(crasher, dedupe=dedupe)
            rows.append(count(design, sweep, lambda _scenario: None))
    return rows
