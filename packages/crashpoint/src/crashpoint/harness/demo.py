"""The demonstration: `crashpoint demo`, what `make demo` runs."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from crashpoint.adapters import registry
from crashpoint.harness.context import command_line
from crashpoint.harness.matrix import MODULE, default_jobs, measure
from crashpoint.harness.progress import progress_for
from crashpoint.harness.run import MatrixSpec
from crashpoint.model import Barrier, FaultKind

__all__ = ["command"]

INTRODUCTION = """\
A graph of three nodes charges a customer once. It is killed before the charge
is sent (b0), after it was sent and before LangGraph has saved that (b1), and after LangGraph has
saved it (b2); a fresh process resumes it each time. The ledger, a process the graph cannot touch,
counts the charges.
"""


@click.command("demo", context_settings={"show_default": True})
@click.option("--k", type=click.IntRange(min=1), default=5, help="Trials per cell.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("out"),
    help="Folder for evidence, plots and report.",
)
def command(k: int, out: Path) -> None:
    """Kill LangGraph at three barriers and look at what it did twice."""
    adapter = registry.adapters()["langgraph"]
    rows = [(adapter, row) for row in adapter.rows()]
    names = ",".join(row.name for _, row in rows)
    arguments = ["--k", str(k), "--runtimes", names, "--name", "demo", "--out", str(out)]
    click.echo(INTRODUCTION)
    spec = MatrixSpec(
        name="demo",
        rows=rows,
        barriers=list(Barrier),
        fault=FaultKind.KILL,
        k=k,
        jobs=default_jobs(),
        limit_s=30.0,
        void_max=0.1,
        cold=min(1, k - 1),
        command=command_line(MODULE, arguments),
    )
    sys.exit(measure(spec, out, progress_for(sys.stderr)))
