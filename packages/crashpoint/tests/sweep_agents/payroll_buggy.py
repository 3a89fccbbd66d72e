"""Payroll import: charges each department for its people, row by row, and tells them.

What has been done and where the job stands are saved after each row by writing aside and renaming.
"""

import csv
import io
import json
from pathlib import Path

from crashpoint.testing import FileStore, call_key

RUN = "payroll-48"
TABLE = """department,people,cents
kitchen,4,180000
bar,2,95000
garden,1,41000
"""
CURSOR = Path("cursor.json")
RECEIPTS = Path("receipts.json")


class Checkpoint:
    """Receipts of the rows that were charged, and the number of the row that comes next."""

    def __init__(self):
        self.receipts = []
        self.row = 0
        self.receipts = FileStore(str(RECEIPTS)).load() or []
        self.row = FileStore(str(CURSOR)).load() or 0

    def advance(self, receipt):
        self.receipts.append(receipt)
        self.row += 1
        put(RECEIPTS, self.receipts)
        put(CURSOR, self.row)

    @property
    def next_number(self):
        """Receipts are numbered without gaps; the number also is the request's key."""
        return len(self.receipts) + 1


def put(path, value):
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(value))
    draft.replace(path)


def rows():
    return list(csv.DictReader(io.StringIO(TABLE)))


def start(payments, tracker):
    checkpoint = Checkpoint()
    table = rows()
    while checkpoint.row < len(table):
        row = table[checkpoint.row]
        number = checkpoint.next_number
        charge = payments.charge(
            f"{RUN} {row['department']}", int(row["cents"]), key=call_key(RUN, str(number))
        )
        checkpoint.advance({"number": number, "charge": charge, "cents": int(row["cents"])})
    notify(tracker, [row["department"] for row in table])
    return {"total": sum(receipt["cents"] for receipt in checkpoint.receipts)}


def notify(tracker, departments):
    issue = tracker.file(f"{RUN} is charged", key=call_key(RUN, "issue"))
    for department in departments:
        key = call_key(RUN, f"notify {department}")
        tracker.comment(issue, f"{department}, you have been charged", key=key)
