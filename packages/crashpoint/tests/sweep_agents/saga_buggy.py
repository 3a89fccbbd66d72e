"""Cancellation saga: a little library of durable steps, and a job of four steps over it.

`Steps.run` returns the recorded result of a step that is done. A step that was cut off runs again,
so whatever it does outside has to carry a key.
"""

import json
from functools import partial
from pathlib import Path

from crashpoint.testing import call_key

ORDERS = ("bike", "helmet")
PRICES = {"bike": 89_900, "helmet": 5_900}


class Steps:
    """Results by step in one line of JSON each; the whole file is replaced when a step is done."""

    def __init__(self, run, path):
        self.run_id = run
        self.path = path
        self.results = {}
        if path.exists():
            for line in path.read_text().splitlines():
                name, result = json.loads(line)
                self.results[name] = result

    def run(self, name, body, *args):
        if name in self.results:
            return self.results[name]
        result = json.loads(json.dumps(body(*args, partial(self.key, name))))
        self.results[name] = result
        draft = self.path.with_name(f".{self.path.name}")
        draft.write_text("".join(json.dumps(pair) + "\n" for pair in self.results.items()))
        draft.replace(self.path)
        return result

    def key(self, step, what):
        return call_key(self.run_id, json.dumps([step, what]))


class Shop:
    def __init__(self, tracker, payments):
        self.tracker = tracker
        self.payments = payments

    def sell(self, order, key):
        charge = self.payments.charge(order, PRICES[order], key=key("charge"))
        return {"order": order, "charge": charge}

    def open_case(self, key):
        return self.tracker.file("Customer cancels everything", key=key("case"))

    def give_back(self, case, sale, key):
        """Refund a sale and note it on the case: one step, since they belong together."""
        cents = PRICES[sale["order"]]
        refund = self.payments.refund(sale["charge"], cents, key=key("refund"))
        note = self.tracker.comment(case, f"{sale['order']}: {cents} back")
        return {"refund": refund, "note": note}

    def close(self, case, count, key):
        return self.tracker.comment(case, f"closed after {count} refunds", key=key("close"))


def start(tracker, payments):
    steps = Steps("cancel-5", Path("steps.jsonl"))
    shop = Shop(tracker, payments)
    sales = [steps.run(f"sell {order}", shop.sell, order) for order in ORDERS]
    case = steps.run("case", shop.open_case)
    for sale in sales:
        steps.run(f"give back {sale['order']}", shop.give_back, case, sale)
    steps.run("close", shop.close, case, len(sales))
    return {"sold": len(sales), "steps": len(steps.results)}
