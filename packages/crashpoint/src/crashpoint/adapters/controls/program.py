"""The program behind the controls: one effect, one record of it, in the declared order.

Standard library only and run inside the subject. It takes its declaration as plain words.
"""

from __future__ import annotations

import hashlib
import json
import os

from crashpoint.inside.client import effect, reach

EFFECT = "charge"
STORE = "store.json"


def run(
    durability: str, persist_order: str, effect_mode: str, determinism: str, state: str
) -> dict[str, bool]:
    """Pay once, as far as the declaration allows; returns what the caller is told."""
    store = _Store(os.path.join(state, STORE), keeps=durability == "journaled")
    if not store.get("completed"):
        _pay(store, persist_order, effect_mode, determinism)
    return {"paid": True}


def _pay(store: _Store, persist_order: str, effect_mode: str, determinism: str) -> None:
    identity = _identity(store) if effect_mode == "twophase" else None

    def act() -> None:
        action = {"charge": "order-7", "cents": 1999}
        if determinism == "drawn":
            action["memo"] = os.urandom(8).hex()
        content = hashlib.sha256(json.dumps(action, sort_keys=True).encode()).hexdigest()
        keys = {"naive": None, "idempotent": content, "twophase": identity}
        effect(EFFECT, action, keys[effect_mode])

    def persist() -> None:
        store.put("completed", True)

    reach("b0")
    (act if persist_order == "after-effect" else persist)()
    reach("b1")
    (persist if persist_order == "after-effect" else act)()
    reach("b2")


def _identity(store: _Store) -> str:
    identity = store.get("identity")
    if identity is None:
        identity = os.urandom(16).hex()
        store.put("identity", identity)
    return str(identity)


class _Store:
    """A JSON file, durable once `put` returns; without durability `put` keeps nothing."""

    def __init__(self, path: str, *, keeps: bool) -> None:
        self._path = path
        self._keeps = keeps

    def get(self, name: str) -> object:
        try:
            with open(self._path, "rb") as file:
                return json.load(file).get(name)
        except FileNotFoundError:
            return None

    def put(self, name: str, value: object) -> None:
        if not self._keeps:
            return
        values = {}
        if os.path.exists(self._path):
            with open(self._path, "rb") as file:
                values = json.load(file)
        values[name] = value
        with open(self._path + ".tmp", "w", encoding="utf-8") as file:
            json.dump(values, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(self._path + ".tmp", self._path)
        folder = os.open(os.path.dirname(self._path), os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
