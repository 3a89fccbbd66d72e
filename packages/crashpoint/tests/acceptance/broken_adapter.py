"""An engine whose rows misbehave, one way each; `python broken_adapter.py --help` runs them.

Their uncrashed runs are fine, unless the row is about that, so that the trials are run at all.
"""

import json
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType

import click

from acceptance import broken_program
from crashpoint.adapters.controls.program import STORE
from crashpoint.harness.context import command_line
from crashpoint.harness.matrix import measure
from crashpoint.harness.progress import PlainProgress
from crashpoint.harness.run import MatrixSpec
from crashpoint.model import S1_ROWS, Barrier, FaultKind
from crashpoint.pipeline.contract import EnvSpec, FinalState, Launch, Row, StoreReading

__all__ = ["CONTROL", "TESTS", "Broken"]

TESTS = Path(__file__).parents[1]
PROGRAM = "acceptance.broken_program"
CONTROL = "well"
UNCRASHED = ("reference_fails", "reference_skips", "reference_repeats")
BENCH = ("cannot_be_read", "does_not_answer", "answers_oddly")
NAMES = (CONTROL, *broken_program.FIRST, *broken_program.AGAIN, *BENCH)


class Broken:
    """One row for each way to misbehave; `well` is the naive control."""

    name = "broken"
    effects = ("charge",)
    control = CONTROL
    waits_s = MappingProxyType({})

    def __init__(self, *, preload=(PROGRAM,)):
        self._preload = preload

    def rows(self):
        return [Row(name, S1_ROWS["r_dup"]) for name in NAMES]

    def environment(self):
        return EnvSpec(preload=self._preload, path=(str(TESTS),))

    @asynccontextmanager
    async def servers(self, folder):
        yield {}

    def start(self, row, trial):
        is_fine = trial.name.endswith(".reference") and row.name not in UNCRASHED
        return self._launch("first", CONTROL if is_fine else row.name, trial)

    def recover(self, row, trial):
        return self._launch("again", row.name, trial)

    async def durable(self, row, trial):
        if row.name == "cannot_be_read":
            raise OSError(5, "the disk is on fire")
        return StoreReading(bool(_stored(trial).get("completed")), {})

    async def final(self, row, trial, ended):
        if trial.name.endswith(".reference"):
            return FinalState(bool(_stored(trial).get("completed")), ended, {})
        if row.name == "does_not_answer":
            await trial.probe(Launch(f"{PROGRAM}:refuse"))
        if row.name == "answers_oddly":
            return FinalState(finished=True, result={1, 2}, facts={})
        return FinalState(bool(_stored(trial).get("completed")), ended, {})

    @staticmethod
    def _launch(function, how, trial):
        return Launch(f"{PROGRAM}:{function}", {"how": how, "state": str(trial.state)})


def _stored(trial):
    try:
        return json.loads((trial.state / STORE).read_bytes())
    except FileNotFoundError:
        return {}


@click.command()
@click.option("--rows", required=True)
@click.option("--k", default=1)
@click.option("--jobs", default=8)
@click.option("--limit", "limit_s", default=30.0)
@click.option("--fault", default="kill")
@click.option("--barriers", default="b1")
@click.option("--name", default="broken")
@click.option("--out", required=True, type=click.Path(path_type=Path))
@click.option("--preload", default=PROGRAM)
def main(*, rows, k, jobs, limit_s, fault, barriers, name, out, preload):
    adapter = Broken(preload=tuple(filter(None, preload.split(","))))
    known = {row.name: row for row in adapter.rows()}
    spec = MatrixSpec(
        name=name,
        rows=[(adapter, known[row]) for row in rows.split(",")],
        barriers=[Barrier(barrier) for barrier in barriers.split(",")],
        fault=FaultKind(fault),
        k=k,
        jobs=jobs,
        limit_s=limit_s,
        void_max=0.1,
        cold=0,
        command=command_line("broken_adapter", ["--rows", rows]),
    )
    sys.exit(measure(spec, out, PlainProgress(sys.stderr)))


if __name__ == "__main__":
    main()
