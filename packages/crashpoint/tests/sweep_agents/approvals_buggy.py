"""Gatekeeper: carries out what a person approved, one file in the inbox for each decision.

An approval is good for one action. It is bound to the proposal by a digest and put out of the way
once it is used, so that nobody uses it twice.
"""

import hashlib
import json
from pathlib import Path

from crashpoint.testing import ScriptedModel, call_key

INBOX = Path("inbox")
LOG = Path("gate.json")
MODEL = ScriptedModel(
    [
        {"tool": "charge", "order": "van-1", "cents": 45_000},
        {"tool": "charge", "order": "yacht", "cents": 9_000_000},
        {"tool": "announce", "text": "a van was bought"},
        None,
    ]
)
BUDGET_CENTS = 100_000


def digest_of(proposal):
    return hashlib.sha256(json.dumps(proposal, sort_keys=True).encode()).hexdigest()[:16]


def decide(proposal):
    """The person, who answers before anybody waits: every affordable proposal has its file."""
    INBOX.mkdir(exist_ok=True)
    is_ok = proposal.get("cents", 0) <= BUDGET_CENTS
    paper = INBOX / f"{proposal['tool']}-{'yes' if is_ok else 'no'}.json"
    paper.write_text(json.dumps({"digest": digest_of(proposal), "yes": is_ok}))
    return paper.name


def load():
    return json.loads(LOG.read_text()) if LOG.exists() else []


def save(log):
    draft = LOG.with_suffix(".tmp")
    draft.write_text(json.dumps(log))
    draft.replace(LOG)


def start(tracker, payments):
    log = load()
    while not log or log[-1]["proposal"] is not None:
        if not log or log[-1]["status"] != "open":
            proposal = MODEL.reply(len(log))
            paper = decide(proposal) if proposal else None
            log.append({"proposal": proposal, "paper": paper, "status": "open"})
            save(log)
            continue
        entry = log[-1]
        entry["status"] = settle(entry, f"{len(log)}", tracker, payments)
        save(log)
        INBOX.joinpath(entry["paper"]).unlink(missing_ok=True)
    return [entry["status"] for entry in log]


def settle(entry, number, tracker, payments):
    """Act on the decision; one that is not there, or is for something else, approves nothing."""
    paper = INBOX / entry["paper"]
    if not paper.exists():
        return "nobody approved"
    decision = json.loads(paper.read_text())
    if decision["digest"] != digest_of(entry["proposal"]):
        return "approved something else"
    paper.unlink()
    if not decision["yes"]:
        return "refused"
    act(entry["proposal"], call_key("gate", number), tracker, payments)
    return "done"


def act(proposal, key, tracker, payments):
    if proposal["tool"] == "charge":
        payments.charge(proposal["order"], proposal["cents"], key=key)
        return
    issue = tracker.file("Purchases", key=call_key(key, "issue"))
    tracker.comment(issue, proposal["text"], key=key)
