"""Retention agent: offers customers who want to leave a discount, in words that are never the same.

The amount and the wording come from a model with some warmth, so that asking twice gives two
answers. A letter's key is made from its content.
"""

import hashlib
import json
import random
from pathlib import Path

from crashpoint.testing import point

CUSTOMERS = {"mira": "price", "tomas": "speed", "ada": "price"}
OPENINGS = ("We would hate to lose you", "Please stay", "One more thing before you go")
STATE = Path("offers.json")


class Letters:
    """One ticket for each customer, one letter on each."""

    def __init__(self, tracker):
        self.tracker = tracker
        self.state = {"tickets": {}, "letters": {}, "sent": []}
        if STATE.exists():
            self.state = json.loads(STATE.read_text())

    def save(self):
        draft = STATE.with_suffix(".tmp")
        draft.write_text(json.dumps(self.state))
        draft.replace(STATE)

    def run(self):
        for customer, reason in CUSTOMERS.items():
            self.open_ticket(customer)
            if customer not in self.state["sent"]:
                self.write_to(customer, reason)
        return {"sent": sorted(self.state["sent"])}

    def open_ticket(self, customer):
        if customer not in self.state["tickets"]:
            title = f"{customer} wants to leave"
            self.state["tickets"][customer] = self.tracker.file(title, key=f"ticket {customer}")
            self.save()

    def write_to(self, customer, reason):
        letter = self.state["letters"].get(customer)
        if letter is None:
            letter = self.state["letters"][customer] = drafted(customer, reason)
            self.save()
        offer = f"{letter['percent']} % off for {letter['months']} months"
        text = f"{letter['opening']}, {customer}! {offer} ({letter['number']})"
        self.tracker.comment(self.state["tickets"][customer], text, key=fingerprint(letter))
        self.state["sent"].append(customer)
        self.save()


def drafted(customer, reason):
    """Ask the model."""
    warmth = random.Random()
    most = 40 if reason == "price" else 15
    letter = {
        "customer": customer,
        "opening": warmth.choice(OPENINGS),
        "percent": warmth.randint(5, most),
        "months": warmth.choice((3, 6, 12)),
        "number": warmth.getrandbits(64),
    }
    point("reply")
    return letter


def fingerprint(letter):
    """Equal for equal letters."""
    return hashlib.sha256(json.dumps(letter, sort_keys=True).encode()).hexdigest()[:40]


def start(tracker):
    return Letters(tracker).run()
