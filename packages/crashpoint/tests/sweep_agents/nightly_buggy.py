"""Nightly job: pays out the day's returns and files a report.

The payments service keeps no keys, so each request that changes something has a marker, and after a
crash an open marker is settled by a look-up. Steps are a table; a state file says how far they are.
"""

import json
from pathlib import Path

from crashpoint.testing import call_key

STATE = Path("nightly.json")
SALES = [("o-1001", 7_900), ("o-1002", 2_450)]
RETURNS = [("o-1001", 7_900), ("o-1002", 1_000)]


def load():
    try:
        return json.loads(STATE.read_text())
    except FileNotFoundError:
        return {"done": {}, "open": None}


def save(state):
    draft = STATE.with_name("nightly.json.tmp")
    draft.write_text(json.dumps(state, indent=1))
    draft.rename(STATE)


def steps():
    """Name, operation, and a function from what is done to the operation's arguments."""
    for order, cents in SALES:
        yield f"sale {order}", "charge", _sale(order, cents)
    for order, cents in RETURNS:
        yield f"return {order}", "refund", _return(order, cents)


def _sale(order, cents):
    return lambda _done: {"order": order, "cents": cents, "currency": "EUR"}


def _return(order, cents):
    return lambda done: {"charge": done[f"sale {order}"], "cents": cents}


def start(payments, tracker):
    state = load()
    for name, op, arguments in steps():
        if name not in state["done"]:
            state["done"][name] = perform(name, op, arguments(state["done"]), state, payments)
            state["open"] = None
            save(state)
    paid = sum(cents for _, cents in RETURNS)
    if "report" not in state["done"]:
        key = call_key("nightly", "report")
        title = f"Nightly: {len(RETURNS)} returns, {paid} cents"
        state["done"]["report"] = tracker.file(title, key=key)
        save(state)
    return {"steps": sorted(state["done"]), "paid": paid}


def perform(name, op, args, state, payments):
    """Send a request unless a look-up shows that the process before this one has."""
    if state["open"] == name:
        seen = payments.find(op, args)
        if seen["found"]:
            return seen["ids"][0]
    made = send(op, args, payments)
    state["open"] = name
    save(state)
    return made


def send(op, args, payments):
    if op == "charge":
        return payments.charge(args["order"], args["cents"], args["currency"])
    return payments.refund(args["charge"], args["cents"])
