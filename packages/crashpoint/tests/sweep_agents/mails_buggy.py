"""Mail agent: sends reminders as comments on invoices' tickets, and tries again when that fails.

A tool call that gets no answer is tried a few times. What the process before may have sent is sent
once more, since the receiver knows it by its key.
"""

from crashpoint.testing import FileStore, ReceiverTimeout, ScriptedModel, call_key

TRIES = 3
MODEL = ScriptedModel(
    [
        {"tool": "open", "invoice": "2026-311"},
        {"tool": "remind", "invoice": "2026-311", "text": "The invoice was due on Friday."},
        {"tool": "open", "invoice": "2026-340"},
        {"tool": "remind", "invoice": "2026-340", "text": "A friendly second reminder."},
        {"tool": "stop"},
    ]
)


class GaveUp(Exception):
    pass


class Mailer:
    def __init__(self, tracker):
        self.tracker = tracker
        self.store = FileStore("mails.json")
        loaded = self.store.load()
        self.steps = [] if loaded is None else loaded

    def run(self):
        while not self.steps or self.steps[-1]["call"]["tool"] != "stop":
            if not self.steps or "result" in self.steps[-1]:
                call = MODEL.reply(len(self.steps))
                self.steps.append({"call": call, "tries": 0})
                self.store.save(self.steps)
                continue
            step = self.steps[-1]
            step["result"] = self.tried(step, len(self.steps))
            self.store.save(self.steps)
        return {"mails": sum(step["call"]["tool"] == "remind" for step in self.steps)}

    def tried(self, step, number):
        """Try a step until it has an answer; a try is counted before it is made."""
        problem = "was not answered before the process died"
        while step["tries"] < TRIES:
            is_first = step["tries"] == 0
            step["tries"] += 1
            self.store.save(self.steps)
            key = call_key("reminders", f"step {number}")
            try:
                return self.first(step["call"], key) if is_first else self.again(step["call"], key)
            except ReceiverTimeout as error:
                problem = str(error)
        raise GaveUp(f"{step['call']} {problem}")

    def first(self, call, key):
        if call["tool"] == "open":
            return self.tracker.file(f"Invoice {call['invoice']}", key=key)
        return self.tracker.comment(self.ticket(call["invoice"]), call["text"], key=key)

    def again(self, call, key):
        """Look whether the ticket is there before it is opened; a reminder is just sent."""
        if call["tool"] == "open":
            found = self.tracker.search(call["invoice"])
            return found[0] if found else self.first(call, key)
        return self.tracker.comment(self.ticket(call["invoice"]), call["text"])

    def ticket(self, invoice):
        for step in self.steps:
            if step["call"] == {"tool": "open", "invoice": invoice}:
                return step["result"]
        raise GaveUp(f"no ticket for {invoice}")


def start(tracker):
    return Mailer(tracker).run()
