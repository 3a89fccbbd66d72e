"""LangGraph with SqliteSaver and durability="sync": four rows over one graph.

b1 holds both ways in which a finished node can become durable (its pending writes and the
checkpoint that supersedes them); b2 lies after that checkpoint. What happens between the two is an
edge.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, Final

from crashpoint.model import S1_ROWS
from crashpoint.pipeline.contract import (
    Endpoints,
    EnvSpec,
    FinalState,
    Launch,
    Row,
    StoreReading,
    Trial,
)

__all__ = ["LangGraph"]

WORKFLOW: Final = "crashpoint.adapters.langgraph.workflow"
DATABASE: Final = "checkpoints.sqlite"
EFFECT: Final = "charge"
PAY_STEP: Final = 2
"""Superstep whose checkpoint has the payment: -1 input, 0 start, 1 prepare, 2 pay, 3 confirm."""


class LangGraph:
    """The graph of `workflow.py`; a fresh process resumes it with `invoke(None, config)`."""

    name = "langgraph"
    effects: Sequence[str] = (EFFECT,)
    control = "r_lg_naive"
    waits_s: Mapping[str, float] = {}

    def rows(self) -> Sequence[Row]:
        """r_lg_naive, r_lg_idem, r_lg_nondet, r_lg_twophase."""
        return [Row(name, declared) for name, declared in S1_ROWS.items() if "_lg_" in name]

    def environment(self) -> EnvSpec:
        """Our interpreter with the extra `langgraph`."""
        return EnvSpec(
            preload=(WORKFLOW, "langgraph.pregel", "langgraph.checkpoint.sqlite"),
            distributions=(
                "langgraph",
                "langgraph-checkpoint",
                "langgraph-checkpoint-sqlite",
                "langchain-core",
            ),
        )

    @asynccontextmanager
    async def servers(self, folder: Path) -> AsyncIterator[Endpoints]:
        """None."""
        yield {}

    def start(self, row: Row, trial: Trial) -> Launch:
        """Invoke the graph on a new thread."""
        return self._launch("start", row, trial)

    def recover(self, row: Row, trial: Trial) -> Launch:
        """Invoke it with no input: go on from the last checkpoint."""
        return self._launch("resume", row, trial)

    async def durable(self, row: Row, trial: Trial) -> StoreReading:
        """Read the saver's tables: pending writes of the payment, steps that have a checkpoint."""
        database = trial.state / DATABASE
        if not database.exists():
            return StoreReading(recorded=False, facts={"steps": [], "payment_writes": 0})
        with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
            rows = connection.execute("SELECT metadata FROM checkpoints").fetchall()
            writes = connection.execute(
                "SELECT count(*) FROM writes WHERE channel = 'payment'"
            ).fetchone()[0]
        steps = sorted(json.loads(metadata)["step"] for (metadata,) in rows)
        recorded = writes > 0 or PAY_STEP in steps
        return StoreReading(recorded, {"steps": steps, "payment_writes": writes})

    async def final(self, row: Row, trial: Trial, ended: Any) -> FinalState:
        """Ask `get_state` in a process of its own.

        An empty `next` alone does not mean finished (a node's writes may be pending under it), so
        the last node's own value has to be there as well.
        """
        said = await trial.probe(self._launch("look", row, trial))
        values = said["values"]
        finished = said["next"] == [] and values.get("confirmed") is True
        result = {
            "cents": values.get("payment", {}).get("cents"),
            "confirmed": values.get("confirmed"),
            "returned": ended == values,
        }
        return FinalState(finished, result, {"next": said["next"], "step": said["step"]})

    @staticmethod
    def _launch(function: str, row: Row, trial: Trial) -> Launch:
        declared = row.declaration
        return Launch(
            f"{WORKFLOW}:{function}",
            {
                "effect_mode": declared.effect_mode.value,
                "determinism": declared.determinism.value,
                "database": str(trial.state / DATABASE),
            },
            env={"LANGSMITH_TRACING": "false"},
        )
