"""Closing agent: goes through a fixed list of phases, each a method, and leaves a last word.

A small state machine; its state is a shelf of JSON written aside and renamed with `os.rename`.
"""
# ruff: noqa: PTH104, PTH110, PTH123

import json
import os

from crashpoint.testing import ScriptedModel, call_key

MODEL = ScriptedModel(
    [
        {"text": "Sum of the year: 3 orders.", "calls": ["charge"], "stop": False},
        {"text": "All orders are settled.", "calls": ["note"], "stop": False},
        {"text": "The year is closed.", "calls": ["note", "farewell"], "stop": True},
    ]
)
ORDERS = (("y-1", 100), ("y-2", 250), ("y-3", 5_000))


class Shelf:
    def __init__(self, path):
        self.path = path
        self.values = {"turn": 0, "reply": None, "at": 0, "done": False, "issue": None, "said": []}
        if os.path.exists(path):
            with open(path) as file:
                self.values = json.load(file)

    def __getitem__(self, name):
        return self.values[name]

    def put(self, **values):
        """Change some and keep all."""
        self.values.update(values)
        with open(f"{self.path}~", "w") as file:
            json.dump(self.values, file)
        os.rename(f"{self.path}~", self.path)


class Closing:
    def __init__(self, shelf, tracker, payments):
        self.shelf = shelf
        self.tracker = tracker
        self.payments = payments

    def run(self):
        if self.shelf["issue"] is None:
            self.shelf.put(issue=self.tracker.file("Year 2026", key=call_key("close", "issue")))
        while not self.shelf["done"]:
            if self.shelf["reply"] is None:
                self.ask()
            self.work(self.shelf["reply"])
        return {"said": self.shelf["said"]}

    def ask(self):
        reply = MODEL.reply(self.shelf["turn"])
        said = [*self.shelf["said"], reply["text"]]
        self.shelf.put(reply=reply, at=0, said=said, done=reply["stop"])

    def work(self, reply):
        calls = reply["calls"]
        while self.shelf["at"] < len(calls):
            getattr(self, calls[self.shelf["at"]])(
                reply, f"{self.shelf['turn']} {self.shelf['at']}"
            )
            self.shelf.put(at=self.shelf["at"] + 1)
        self.shelf.put(turn=self.shelf["turn"] + 1, reply=None)

    def charge(self, _reply, place):
        for order, cents in ORDERS:
            self.payments.charge(order, cents, key=call_key("close", f"{place} {order}"))

    def note(self, reply, place):
        self.tracker.comment(self.shelf["issue"], reply["text"], key=call_key("close", place))

    def farewell(self, _reply, place):
        text = f"{len(self.shelf['said'])} words were said"
        self.tracker.comment(self.shelf["issue"], text, key=call_key("close", place))


def start(tracker, payments):
    return Closing(Shelf("closing.json"), tracker, payments).run()
