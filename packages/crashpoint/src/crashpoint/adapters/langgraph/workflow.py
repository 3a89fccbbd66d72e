"""The graph under test: prepare, pay, confirm. Runs inside the subject.

The rows differ in nothing but how `pay` makes its key; nothing here deduplicates. The saver
announces b1 and b2, because only there is it known what is durable.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any, TypedDict

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph

from crashpoint.inside.client import effect, reach

EFFECT = "charge"
CONFIG: RunnableConfig = {"configurable": {"thread_id": "trial"}}


class Order(TypedDict, total=False):
    """The graph's state."""

    order: str
    identity: str
    payment: dict[str, Any]
    confirmed: bool


def start(effect_mode: str, determinism: str, database: str) -> Any:
    """Run the graph from its input; returns the final state."""
    return _run({"order": "order-7"}, effect_mode, determinism, database)


def resume(effect_mode: str, determinism: str, database: str) -> Any:
    """Go on from the last checkpoint; returns the final state."""
    return _run(None, effect_mode, determinism, database)


def look(effect_mode: str, determinism: str, database: str) -> dict[str, Any]:
    """The engine's word on the run: {next, values, step}."""
    with closing(_connect(database)) as connection:
        saver = SqliteSaver(connection)
        graph = _graph(effect_mode, determinism, reach).compile(checkpointer=saver)
        state = graph.get_state(CONFIG)
    step = state.metadata.get("step") if state.metadata else None
    return {"next": list(state.next), "values": state.values, "step": step}


def _run(given: Order | None, effect_mode: str, determinism: str, database: str) -> Any:
    with closing(_connect(database)) as connection:
        saver = AnnouncingSaver(connection)
        graph = _graph(effect_mode, determinism, saver.announce).compile(checkpointer=saver)
        return graph.invoke(given, CONFIG, durability="sync")


def _connect(database: str) -> sqlite3.Connection:
    return sqlite3.connect(database, check_same_thread=False)


class AnnouncingSaver(SqliteSaver):
    """SqliteSaver that holds every write of the payment at b1 and stops after its checkpoint at b2.

    `put_writes` and `put` run on a pool without order between them. Whichever comes first announces
    b1; the other waits behind the same lock, so neither can persist before the answer. Points are
    announced under the saver's own lock: a process frozen with a transaction open would lock the
    database for everyone.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(connection)
        self._gate = threading.Lock()
        self._passed_b1 = False

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Hold the payment's pending writes at b1."""
        if any(channel == "payment" for channel, _ in writes):
            self._hold_at_b1()
        super().put_writes(config, writes, task_id, task_path)

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Hold the superseding checkpoint at b1; once it is durable the run stands at b2."""
        if "payment" not in new_versions:
            return super().put(config, checkpoint, metadata, new_versions)
        self._hold_at_b1()
        saved = super().put(config, checkpoint, metadata, new_versions)
        self.announce("b2")
        return saved

    def announce(self, point: str) -> None:
        """Announce a point while no thread is in the database."""
        with self.lock:
            reach(point)

    def _hold_at_b1(self) -> None:
        with self._gate:
            if not self._passed_b1:
                self.announce("b1")
                self._passed_b1 = True


def _graph(
    effect_mode: str, determinism: str, announce: Callable[[str], None]
) -> StateGraph[Order]:
    def prepare(state: Order) -> Order:
        return {"identity": os.urandom(16).hex()}

    def pay(state: Order) -> Order:
        action = {"charge": state["order"], "cents": 1999}
        if determinism == "drawn":
            action["memo"] = os.urandom(8).hex()
        content = hashlib.sha256(json.dumps(action, sort_keys=True).encode()).hexdigest()
        keys = {"naive": None, "idempotent": content, "twophase": state["identity"]}
        announce("b0")
        effect(EFFECT, action, keys[effect_mode])
        return {"payment": action}

    def confirm(state: Order) -> Order:
        return {"confirmed": True}

    graph = StateGraph(Order)
    graph.add_node("prepare", prepare)
    graph.add_node("pay", pay)
    graph.add_node("confirm", confirm)
    graph.add_edge(START, "prepare")
    graph.add_edge("prepare", "pay")
    graph.add_edge("pay", "confirm")
    graph.add_edge("confirm", END)
    return graph
