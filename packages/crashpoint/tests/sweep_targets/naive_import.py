"""Imports orders: charges each and notes in checkpoint.json which are done. A script of its own.

The checkpoint is written in place after each row, and a request carries no key.
"""

import json
from pathlib import Path

from crashpoint.testing import payments

CHECKPOINT = Path("checkpoint.json")
ORDERS = [("o-1", 1_200), ("o-2", 850), ("o-3", 4_075), ("o-4", 99)]


def load():
    if not CHECKPOINT.exists():
        return {"done": [], "cents": 0}
    return json.loads(CHECKPOINT.read_text())


def save(state):
    with CHECKPOINT.open("w") as file:
        json.dump(state, file)


def main():
    service = payments()
    state = load()
    for order, cents in ORDERS:
        if order in state["done"]:
            continue
        service.charge(order, cents)
        state["done"].append(order)
        state["cents"] += cents
        save(state)
    return {"orders": len(state["done"]), "cents": state["cents"]}


if __name__ == "__main__":
    main()
