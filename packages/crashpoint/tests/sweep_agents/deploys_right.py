"""Deploy agent: announces, rolls out and confirms each service of a release on its ticket.

A run has an id of its own, drawn when it begins; a state file that cannot be read is put aside and
the run begins anew, since nobody is there at night to repair it.
"""

import json
import os
import uuid
from pathlib import Path

from crashpoint.testing import ScriptedModel, call_key

STATE = Path("deploy.json")
SERVICES = ("gateway",)
MODEL = ScriptedModel(
    [
        [
            ("announce", "*", "release 7.2 begins"),
            ("roll", "gateway", "rolled out to 10 %"),
        ],
        [("roll", "gateway", "rolled out to 100 %")],
        [("announce", "*", "release 7.2 is live")],
        [],
    ]
)


def load():
    try:
        return json.loads(STATE.read_text())
    except FileNotFoundError:
        pass
    except ValueError:
        STATE.rename(STATE.with_suffix(".unreadable"))
    state = {"run": uuid.uuid4().hex, "tickets": {}, "turns": [], "healthy": []}
    save(state)
    return state


def save(state):
    aside = STATE.with_suffix(".part")
    with aside.open("w") as file:
        json.dump(state, file, indent=2, sort_keys=True)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(STATE)


def start(tracker):
    state = load()
    for service in ("*", *SERVICES):
        if service not in state["tickets"]:
            title = "Release 7.2" if service == "*" else f"Release 7.2: {service}"
            state["tickets"][service] = tracker.file(title, key=key_of(state, "ticket", service))
            save(state)
    for turn in turns(state):
        for number, call in enumerate(turn["calls"]):
            if number < turn["done"]:
                continue
            run_call(state, turn["number"], number, call, tracker)
            turn["done"] = number + 1
            save(state)
    return {"healthy": sorted(state["healthy"]), "turns": len(state["turns"])}


def turns(state):
    """The turns that are under way or still to come; a reply is saved before it is used."""
    yield from state["turns"]
    while not state["turns"] or state["turns"][-1]["calls"]:
        calls = [list(call) for call in MODEL.reply(len(state["turns"]))]
        state["turns"].append({"number": len(state["turns"]), "calls": calls, "done": 0})
        save(state)
        yield state["turns"][-1]


def key_of(state, *call):
    return call_key(state["run"], json.dumps(call))


def run_call(state, turn, number, call, tracker):
    kind, service, text = call
    ticket = state["tickets"][service]
    tracker.comment(ticket, text, key=key_of(state, turn, number))
    if kind == "roll" and text.endswith(" 100 %"):
        state["healthy"].append(service)
