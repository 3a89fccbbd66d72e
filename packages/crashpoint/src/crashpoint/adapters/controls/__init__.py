"""Six rows without an engine, whose outcomes are known: if one surprises, the bench is broken."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from crashpoint.adapters.controls.program import EFFECT, STORE
from crashpoint.model import S1_ROWS, Durability
from crashpoint.pipeline.contract import (
    Endpoints,
    EnvSpec,
    FinalState,
    Launch,
    Row,
    StoreReading,
    Trial,
)

__all__ = ["Controls"]


class Controls:
    """The controls. Their store is one JSON file, replaced by rename after a sync."""

    name = "controls"
    effects: Sequence[str] = (EFFECT,)
    control = "r_dup"
    waits_s: Mapping[str, float] = {}

    def rows(self) -> Sequence[Row]:
        """r_null, r_dup, r_lost, r_idem, r_diverge, r_twophase."""
        names = ("r_null", "r_dup", "r_lost", "r_idem", "r_diverge", "r_twophase")
        return [Row(name, S1_ROWS[name]) for name in names]

    def environment(self) -> EnvSpec:
        """Our interpreter, with the program imported."""
        return EnvSpec(preload=("crashpoint.adapters.controls.program",))

    @asynccontextmanager
    async def servers(self, folder: Path) -> AsyncIterator[Endpoints]:
        """None."""
        yield {}

    def start(self, row: Row, trial: Trial) -> Launch:
        """Run the program."""
        declared = row.declaration
        return Launch(
            "crashpoint.adapters.controls.program:run",
            {
                "durability": declared.durability.value,
                "persist_order": declared.persist_order.value,
                "effect_mode": declared.effect_mode.value,
                "determinism": declared.determinism.value,
                "state": str(trial.state),
            },
        )

    def recover(self, row: Row, trial: Trial) -> Launch:
        """Run it again: it looks at its store first."""
        return self.start(row, trial)

    async def durable(self, row: Row, trial: Trial) -> StoreReading:
        """Read the JSON file."""
        stored = _stored(trial)
        return StoreReading(bool(stored.get("completed")), {"keys": sorted(stored)})

    async def final(self, row: Row, trial: Trial, ended: Any) -> FinalState:
        """Finished: the process said so, and so does the store where there is one."""
        stored = _stored(trial)
        kept = row.declaration.durability is Durability.NONE or bool(stored.get("completed"))
        return FinalState(kept and ended == {"paid": True}, ended, {"keys": sorted(stored)})


def _stored(trial: Trial) -> dict[str, Any]:
    try:
        stored: dict[str, Any] = json.loads((trial.state / STORE).read_bytes())
    except FileNotFoundError:
        return {}
    return stored
