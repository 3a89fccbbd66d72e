"""Payout agent: pays what a person has released, over a service that knows no keys.

Before each request a marker is written; whoever finds a marker without a result has to find out
what became of the request. State is a journal of JSON lines, opened for each line.
"""

import json
from enum import Enum
from pathlib import Path

from crashpoint.testing import call_key, point

RELEASED = [("rent", 120_000), ("water", 8_040), ("power", 13_777)]
JOURNAL = Path("payouts.jsonl")


class Stage(Enum):
    NEW = "new"
    SENT = "sent"
    PAID = "paid"


def read():
    """For each payout the stage it has come to and, once it is paid, its number."""
    stages = {name: (Stage.NEW, None) for name, _ in RELEASED}
    if JOURNAL.exists():
        for line in JOURNAL.read_text().splitlines():
            entry = json.loads(line)
            stages[entry["payout"]] = (Stage(entry["stage"]), entry.get("number"))
    return stages


def write(payout, stage, **more):
    with JOURNAL.open("a") as file:
        file.write(json.dumps({"payout": payout, "stage": stage.value, **more}) + "\n")
    point("marked" if stage is Stage.SENT else "saved", payout)


def start(payments, tracker):
    stages = read()
    for payout, cents in RELEASED:
        stage, _ = stages[payout]
        if stage is Stage.NEW:
            write(payout, Stage.SENT)
            number = pay(payments, payout, cents)
            write(payout, Stage.PAID, number=number)
        elif stage is Stage.SENT:
            write(payout, Stage.PAID, number=settled(payments, payout, cents))
    return report(tracker)


def pay(payments, payout, cents):
    return payments.charge(f"payout {payout}", cents)


def settled(payments, payout, cents):
    """Somebody was about to pay this, or has paid it, and is gone: the number of the payment."""
    seen = payments.find("charge", {"order": f"payout {payout}", "cents": cents})
    if not seen["found"]:
        return pay(payments, payout, cents)
    return seen["ids"][0]


def report(tracker):
    paid = {payout: cents for payout, cents in RELEASED if read()[payout][0] is Stage.PAID}
    issue = tracker.file("Payouts of the week", key=call_key("payouts-48", "report"))
    lines = "\n".join(f"{payout}: {cents}" for payout, cents in paid.items())
    tracker.comment(issue, lines, key=call_key("payouts-48", "lines"))
    return {"paid": len(paid), "cents": sum(paid.values())}
