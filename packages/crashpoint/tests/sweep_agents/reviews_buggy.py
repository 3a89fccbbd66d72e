"""Review agent: opens a ticket for each finding of a reply and assigns it, two effects in a turn.

The provider gives every reply new call ids, also when it is asked the same thing again; a call's
key is made from its id.
"""

import uuid

from crashpoint.testing import FileStore, ScriptedModel, call_key

MODEL = ScriptedModel(
    [
        [
            ("file", {"title": "lib/parse.c: no bound on depth"}),
            ("file", {"title": "lib/send.c: time-out is never set"}),
        ],
        [
            ("comment", {"finding": 0, "text": "for the parser group"}),
            ("comment", {"finding": 1, "text": "for the network group"}),
        ],
        [("comment", {"finding": 0, "text": "review is over"})],
        [],
    ]
)


def ask_model(n):
    """The n-th reply as a provider gives it: with ids that nobody has seen before."""
    return [
        {"id": f"toolu_{uuid.uuid4().hex}", "name": name, "input": given}
        for name, given in MODEL.reply(n)
    ]


class Turn:
    def __init__(self, calls, results=()):
        self.calls = calls
        self.results = list(results)

    @property
    def is_over(self):
        return len(self.results) == len(self.calls)

    def as_json(self):
        return {"calls": self.calls, "results": self.results}


class Review:
    def __init__(self, tracker):
        self.tracker = tracker
        self.store = FileStore("review.json")
        kept = self.store.load() or []
        self.turns = [Turn(**turn) for turn in kept]

    def save(self):
        self.store.save([turn.as_json() for turn in self.turns])

    def run(self):
        if not self.turns:
            self.ask()
        while self.turns[-1].calls:
            turn = self.turns[-1]
            for call in turn.calls[len(turn.results) :]:
                turn.results.append(self.perform(call))
            self.save()
            self.ask()
        return {"tickets": len(self.tickets()), "turns": len(self.turns)}

    def ask(self):
        if not self.turns or self.turns[-1].is_over:
            self.turns.append(Turn(ask_model(len(self.turns))))

    def perform(self, call):
        key = call_key("review-7", call["id"])
        given = call["input"]
        if call["name"] == "file":
            return {"issue": self.tracker.file(given["title"], key=key)}
        issue = self.tickets()[given["finding"]]
        return {"comment": self.tracker.comment(issue, given["text"], key=key)}

    def tickets(self):
        return [
            result["issue"] for turn in self.turns for result in turn.results if "issue" in result
        ]


def start(tracker):
    return Review(tracker).run()
