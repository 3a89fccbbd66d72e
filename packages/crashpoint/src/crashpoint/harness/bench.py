"""What a benchmark reports: figures with what was wanted and what they are held against.

A figure that was not reached is printed as not reached. The document keeps the raw measurements
too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from crashpoint.harness.closing import closed
from crashpoint.harness.context import context
from crashpoint.pipeline.evidence import render, write_atomically

__all__ = ["FORMAT", "Figure", "fault_in", "table", "write"]

FORMAT: Final = "crashpoint.bench/1"


@dataclass(frozen=True)
class Figure:
    """One measured number. `wanted` and `reference` are words; `holds` is None without a bound."""

    what: str
    reached: float
    unit: str
    wanted: str = ""
    reference: str = ""
    holds: bool | None = None


def table(figures: Sequence[Figure]) -> str:
    """Figures for a terminal: what, reached, wanted, beside what."""
    lines = [f"{'':52}{'reached':>14}  {'wanted':16}beside"]
    for figure in figures:
        number = f"{figure.reached:,.0f}" if figure.reached >= 100 else f"{figure.reached:.3g}"
        reached = f"{number} {figure.unit}".strip()
        verdict = "  NOT REACHED" if figure.holds is False else ""
        lines.append(
            f"{figure.what:52}{reached:>14}  {figure.wanted:16}{figure.reference}{verdict}".rstrip()
        )
    return "\n".join(lines)


def write(
    path: Path,
    command: str,
    figures: Sequence[Figure],
    measured: Mapping[str, Any],
    *,
    package: Path | None = None,
) -> None:
    """Write the evidence file, closed by a ledger of its own. Raises OSError and LedgerFault.

    `package` is the folder of what was measured, if that is not crashpoint.
    """
    body = {
        "format": FORMAT,
        "kind": "bench",
        "name": path.stem,
        **context(package),
        "command": command,
        "figures": [asdict(figure) for figure in figures],
        "measured": measured,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, render(closed(body)))


def fault_in(document: Mapping[str, Any]) -> str | None:
    """Why a document's figures are not figures, or None; its seals are checked apart."""
    for figure in document["figures"]:
        try:
            Figure(**figure)
        except TypeError as error:
            return f"figure {figure.get('what')!r}: {error}"
    return None
