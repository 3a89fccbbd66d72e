"""outlive: an engine with a SQLite file, and workers as the processes under test. Eight rows.

A fault always hits a whole tree, so the tree says what died. In `r_out_*` it is the worker, and its
warden stands outside: it confirms a death at once, and ends a worker that stands still before its
lease does. In `r_out_*_alone` nobody stands outside, as when worker and warden go together: the
engine learns of it by the lease alone, and a thawed worker finds its run with another. (With a
warden in the tree, what a thaw brings is a race between its kill and the body, and no prediction.)
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from crashpoint.model import S1_ROWS, Takeover
from crashpoint.pipeline.contract import (
    Endpoints,
    EnvSpec,
    FinalState,
    Launch,
    Row,
    StoreReading,
    Trial,
)
from crashpoint.procs.zygote import ZygoteFault

__all__ = ["Outlive"]

PROGRAM: Final = "crashpoint.adapters.outlive.program"
WARDEN: Final = "crashpoint.adapters.outlive.warden"
EFFECT: Final = "charge"
PAY: Final = "pay#0"
ALONE: Final = "_alone"
LEASE_S: Final = 1.0
GRACE_S: Final = 0.5
"""How long the engine lets a worker come back whose connection broke."""
READY_S: Final = 30.0
END_S: Final = 10.0
ANSWER_S: Final = 10.0


class Outlive:
    """One engine a matrix; each trial is a run of its own in an app of its own."""

    name = "outlive"
    effects: Sequence[str] = (EFFECT,)
    control = "r_out_naive"
    waits_s: Mapping[str, float] = {"lease": LEASE_S}

    def rows(self) -> Sequence[Row]:
        """r_out_{naive,idem,nondet,twophase}, and the same with `_alone` behind it."""
        declared = {
            name.replace("_lg_", "_out_"): declaration
            for name, declaration in S1_ROWS.items()
            if "_lg_" in name
        }
        watched = [
            Row(name, replace(declaration, takeover=Takeover.AFTER_DEATH))
            for name, declaration in declared.items()
        ]
        return watched + [Row(f"{name}{ALONE}", found) for name, found in declared.items()]

    def environment(self) -> EnvSpec:
        """Our interpreter."""
        return EnvSpec(
            preload=("outlive", PROGRAM, "outlive.sdk.runner", "websockets.asyncio.client"),
            distributions=("outlive", "apsw", "msgspec", "uvicorn", "uvloop", "websockets"),
        )

    @asynccontextmanager
    async def servers(self, folder: Path) -> AsyncIterator[Endpoints]:
        """The engine, and the warden that watches the workers of `r_out_*`."""
        engine = [sys.executable, "-m", "outlive", "engine", "--listen", "127.0.0.1:0"]
        engine += ["--store", f"sqlite:///{folder}/outlive.db", "--parent", str(os.getpid())]
        engine += ["--ttl", str(LEASE_S), "--grace", str(GRACE_S), "--ready-fd"]
        with _server(engine, folder / "engine.log") as engine_ready:
            url = await engine_ready()
            warden = [sys.executable, "-m", WARDEN, url, f"{folder}/w.sock", str(os.getpid())]
            with _server(warden, folder / "warden.log") as warden_ready:
                yield {"engine": url, "warden": await warden_ready()}

    def start(self, row: Row, trial: Trial) -> Launch:
        """Start the run, and be a worker for it."""
        return self._launch("start", row, trial)

    def recover(self, row: Row, trial: Trial) -> Launch:
        """Be another worker: the engine gives it the run when it may."""
        return self._launch("resume", row, trial)

    async def durable(self, row: Row, trial: Trial) -> StoreReading:
        """Ask the engine for the run's record: it shows what is durable."""
        entries = await _entries(trial)
        return StoreReading([PAY, "done"] in entries, {"entries": entries})

    async def final(self, row: Row, trial: Trial, ended: Any) -> FinalState:
        """Finished: the engine calls the run completed, with the result that the worker gave."""
        said = await _ask(trial, "")
        found = said.get("result") or {}
        result = {
            "cents": found.get("payment", {}).get("cents"),
            "confirmed": found.get("confirmed"),
            "returned": ended == said.get("result"),
        }
        facts = {name: said[name] for name in ("state", "epoch", "deaths")}
        return FinalState(
            said["state"] == "completed", result, {**facts, "entries": await _entries(trial)}
        )

    @staticmethod
    def _launch(function: str, row: Row, trial: Trial) -> Launch:
        declared = row.declaration
        alone = declared.takeover is Takeover.WHILE_ALIVE
        return Launch(
            f"{PROGRAM}:{function}",
            {
                "engine": trial.endpoints["engine"],
                "warden": "" if alone else trial.endpoints["warden"],
                "run": trial.name,
                "effect_mode": declared.effect_mode.value,
                "determinism": declared.determinism.value,
            },
            env={"OUTLIVE_KEY": ""},
        )


async def _entries(trial: Trial) -> list[list[str]]:
    """Call and kind of each entry of the run's record."""
    return [[entry["call"], entry["kind"]] for entry in (await _ask(trial, "/steps"))["steps"]]


async def _ask(trial: Trial, what: str) -> dict[str, Any]:
    url = f"{trial.endpoints['engine']}/v1/runs/{quote(trial.name, safe='')}{what}"

    def get() -> dict[str, Any]:
        with urllib.request.urlopen(url, timeout=ANSWER_S) as answer:  # noqa: S310  http
            found: dict[str, Any] = json.load(answer)
            return found

    return await asyncio.to_thread(get)


@contextmanager
def _server(command: Sequence[str], log: Path) -> Iterator[Callable[[], Awaitable[str]]]:
    """Start a server that writes its address to the descriptor it is given last; end it."""
    reading, writing = os.pipe()
    env = {name: value for name, value in os.environ.items() if not name.startswith("OUTLIVE_")}
    with os.fdopen(reading, encoding="utf-8") as told, log.open("wb") as output:
        try:
            process = subprocess.Popen(
                [*command, str(writing)],
                pass_fds=(writing,),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=env,
            )
        finally:
            os.close(writing)

        async def ready() -> str:
            async with asyncio.timeout(READY_S):
                address = (await asyncio.to_thread(told.readline)).strip()
            if not address:
                said = log.read_text(encoding="utf-8", errors="replace").strip()
                raise ZygoteFault(f"{' '.join(command[1:4])} does not start: {said[-300:]}")
            return address

        try:
            yield ready
        finally:
            process.terminate()
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
