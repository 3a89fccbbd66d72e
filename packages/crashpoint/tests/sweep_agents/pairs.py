"""Agents with a classic fault each, their twins without it, and what a sweep has to say of them.

`NAME_buggy.py` and `NAME_right.py` differ in a few lines: the fault, or its absence.
"""

from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import MappingProxyType

from crashpoint.receivers.dialect import KEYED, Dialect, Keys
from crashpoint.sweep.api import Job, Options

FOLDER = Path(__file__).parent
KEYED_BOTH = MappingProxyType({"tracker": KEYED, "payments": KEYED})
SHOWS_AT_ONCE = MappingProxyType(
    {"tracker": KEYED, "payments": Dialect("shows at once", Keys.NONE)}
)
"""A payments service without keys that can be asked what it has done."""


@dataclass(frozen=True)
class Pair:
    name: str
    fault: str
    outcome: str
    point: str
    """The kind of point at which the worst scenario crashes last."""
    effect: str
    """What the complaint says of the effect that went wrong, or part of it."""
    receivers: dict[str, Dialect] = field(default_factory=lambda: dict(KEYED_BOTH))

    def job(self, kind):
        module = import_module(f"sweep_agents.{self.name}_{kind}")
        return Job(module.start, name=f"{self.name}_{kind}")

    def options(self, **options):
        return Options(receivers=self.receivers, **options)

    def lines(self, kind):
        return (FOLDER / f"{self.name}_{kind}.py").read_text().splitlines()


PAIRS = (
    Pair(
        "refunds",
        "a result is saved before its effect",
        "LOST",
        "renamed",
        "refund(charge=charge(order='orde",
    ),
    Pair("invoices", "a key is made anew for each attempt", "DUPLICATED", "accepted", "charge("),
    Pair(
        "contacts",
        "parts of a key are joined without their lengths, so that a:b + c meets a + b:c",
        "LOST",
        "sending",
        "charge(order='eu:north 1'",
    ),
    Pair(
        "nightly",
        "a marker is written after the request",
        "DUPLICATED",
        "accepted",
        "charge(order='o-1001'",
        dict(SHOWS_AT_ONCE),
    ),
    Pair("payroll", "state and position are in two files", "DUPLICATED", "renamed", "kitchen"),
    # A rename without a sync cannot show where processes are killed: the page cache survives that.
    # What shows is the other half of a careless save, a file that is written in place.
    Pair(
        "deploys",
        "state is written in place, and begun anew when it is torn",
        "DUPLICATED",
        "truncated",
        "file(title='Release 7.2')",
    ),
    Pair(
        "triage",
        "a call id that the model uses in two replies is taken for done",
        "LOST",
        "reply",
        "comment was asked for 2 times and done 0 times",
    ),
    Pair(
        "offers",
        "a key is made from content that is drawn again by a restart",
        "DIVERGED",
        "accepted",
        "comment(issue=file(title='mira wants to leave'))",
    ),
    Pair(
        "reviews",
        "two effects in a turn that is saved once, with ids that a reply draws",
        "DUPLICATED",
        "accepted",
        "file(title='lib/parse.c: no bound on depth')",
    ),
    Pair(
        "payouts",
        "a marker without a result is taken for a payment that was made",
        "LOST",
        "written",
        "charge(order='payout rent'",
        dict(SHOWS_AT_ONCE),
    ),
    Pair(
        "mails",
        "what is tried again is sent without the key of the first try",
        "DUPLICATED",
        "accepted",
        "comment(issue=file(title='Invoic",
    ),
    Pair(
        "closing",
        "a run is marked as done before its last effects",
        "LOST",
        "renamed",
        "comment(issue=file(title='Year 2026')",
    ),
    Pair(
        "approvals",
        "an approval is used up before the action",
        "LOST",
        "removed",
        "charge(order='van-1'",
    ),
    Pair(
        "saga",
        "two effects in one step, only one of which has a key",
        "DUPLICATED",
        "accepted",
        "bike: 89900 back",
    ),
)
