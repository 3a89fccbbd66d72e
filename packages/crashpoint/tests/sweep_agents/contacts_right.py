"""Batch import: charges the set-up fee for every row of two partners' lists.

A journal of JSON lines that stays open; a row is done when its line is there. No model: rows are
the work, in the order in which the partners sent them.
"""

import json
import os
from pathlib import Path

from crashpoint.testing import call_key, point

# A partner names its batch and its rows as it likes.
BATCHES = {
    "eu": [("north:1", 1_500), ("north:2", 1_500), ("south:1", 2_500)],
    "eu:north": [("1", 900), ("3", 900)],
}
HOLIDAYS = {"south:1"}


class Journal:
    """Lines of JSON; a line that was cut off is not there."""

    def __init__(self, path):
        self.path = path
        self.entries = []
        if path.exists():
            whole, _, cut = path.read_text().rpartition("\n")
            self.entries = [json.loads(line) for line in whole.splitlines()]
            if cut:
                path.write_text(whole + "\n" if whole else "")
        self.file = path.open("a")

    def add(self, **entry):
        self.file.write(json.dumps(entry) + "\n")
        self.file.flush()
        os.fsync(self.file.fileno())
        point("saved", entry["did"])
        self.entries.append(entry)

    def all(self, did):
        return [entry for entry in self.entries if entry["did"] == did]

    def close(self):
        self.file.close()


def key_of(batch, row):
    return call_key(batch, row)


def start(tracker, payments):
    journal = Journal(Path("import.jsonl"))
    try:
        return run(journal, tracker, payments)
    finally:
        journal.close()


def run(journal, tracker, payments):
    if not journal.all("ticket"):
        ticket = tracker.file("Import of partners' lists", key=call_key("import", "ticket"))
        journal.add(did="ticket", ticket=ticket)
    for batch, rows in BATCHES.items():
        for row, cents in rows:
            import_row(journal, payments, batch, row, cents)
        close_batch(journal, tracker, batch)
    charged = journal.all("charged")
    return {"rows": len(charged), "cents": sum(entry["cents"] for entry in charged)}


def import_row(journal, payments, batch, row, cents):
    done = journal.all("charged") + journal.all("skipped")
    if any((entry["batch"], entry["row"]) == (batch, row) for entry in done):
        return
    if row in HOLIDAYS:
        journal.add(did="skipped", batch=batch, row=row)
        return
    charge = payments.charge(f"{batch} {row}", cents, key=key_of(batch, row))
    journal.add(did="charged", batch=batch, row=row, cents=cents, charge=charge)


def close_batch(journal, tracker, batch):
    """Tell about a batch once all of its rows are done."""
    if any(entry["batch"] == batch for entry in journal.all("closed")):
        return
    rows = [entry for entry in journal.all("charged") if entry["batch"] == batch]
    total = sum(entry["cents"] for entry in rows)
    text = f"{batch}: {len(rows)} rows, {total} cents"
    ticket = journal.all("ticket")[0]["ticket"]
    comment = tracker.comment(ticket, text, key=call_key("close", batch))
    journal.add(did="closed", batch=batch, comment=comment)
