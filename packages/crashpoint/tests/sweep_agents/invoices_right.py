"""Invoicing agent: bills each customer for the month and writes what it did into one ticket.

A class with a state of its own dataclass, saved by writing aside and renaming. Charges that the
service refuses are put on the list for a person.
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from crashpoint.testing import ReceiverRefused, ScriptedModel, call_key

MONTH = "2026-10"
HOURS = {"acme": 12, "globex": 0, "initech": 31}
CENTS_AN_HOUR = 9_500

MODEL = ScriptedModel(
    [
        [{"id": "call-1", "tool": "hours", "customer": name} for name in HOURS],
        [{"id": f"call-{n}", "tool": "bill", "customer": name} for n, name in enumerate(HOURS, 4)],
        [{"id": "call-7", "tool": "report"}],
        [],
    ]
)


@dataclass
class State:
    replies: list[list[dict]] = field(default_factory=list)
    results: list[list[object]] = field(default_factory=list)
    charges: dict[str, int] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    ticket: int = 0


class Biller:
    def __init__(self, tracker, payments, path=Path("billing.json")):
        self.tracker = tracker
        self.payments = payments
        self.path = path
        self.state = State(**json.loads(path.read_text())) if path.exists() else State()

    def save(self):
        draft = self.path.with_suffix(".new")
        draft.write_text(json.dumps(asdict(self.state)))
        draft.replace(self.path)

    def run(self):
        if not self.state.ticket:
            self.state.ticket = self.tracker.file(f"Billing {MONTH}", key=self.key("ticket"))
            self.save()
        while not self.is_done():
            turn = len(self.state.results) - 1
            if turn < 0 or len(self.state.results[turn]) == len(self.state.replies[turn]):
                self.state.replies.append(MODEL.reply(turn + 1))
                self.state.results.append([])
                self.save()
                continue
            call = self.state.replies[turn][len(self.state.results[turn])]
            result = getattr(self, call["tool"])(call, f"{turn}/{len(self.state.results[turn])}")
            self.state.results[turn].append(result)
            self.save()
        return {"charged": sorted(self.state.charges), "refused": sorted(self.state.refused)}

    def is_done(self):
        return bool(self.state.replies) and not self.state.replies[-1]

    def key(self, call):
        return call_key(f"billing {MONTH}", call)

    # The tools.

    def hours(self, call, _position):
        return HOURS[call["customer"]]

    def bill(self, call, position):
        customer = call["customer"]
        cents = HOURS[customer] * CENTS_AN_HOUR
        try:
            charge = self.payments.charge(f"{customer} {MONTH}", cents, key=self.key(position))
        except ReceiverRefused as refusal:
            if refusal.status >= 500:
                raise
            self.state.refused[customer] = str(refusal)
            return "refused"
        self.state.charges[customer] = charge
        return charge

    def report(self, _call, position):
        text = f"charged {', '.join(self.state.charges)}; refused {', '.join(self.state.refused)}"
        return self.tracker.comment(self.state.ticket, text, key=self.key(position))


def start(tracker, payments):
    return Biller(tracker, payments).run()
