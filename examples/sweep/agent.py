"""An agent that triages a bug report: it does what a model says, one tool call after the other."""

import json
from pathlib import Path
from typing import Any

from crashpoint.testing import ScriptedModel, Tracker

STATE = Path("agent.json")
MODEL = ScriptedModel(
    [
        [
            ("call-1", "file", {"title": "login fails on a space"}),
            ("call-2", "file", {"title": "export stops at midnight"}),
        ],
        [("call-3", "comment", {"issue": 1, "text": "also seen with a tab"})],
        [],
    ]
)


def run_agent(tracker: Tracker) -> dict[str, int]:
    """Start, or go on where the state says; returns how many calls were made in how many turns."""
    state = json.loads(STATE.read_text()) if STATE.exists() else {"turns": []}
    turns = state["turns"]
    while True:
        if not turns or len(turns[-1]["results"]) == len(turns[-1]["calls"]):
            calls = MODEL.reply(len(turns))
            if not calls:
                return {"turns": len(turns), "calls": sum(len(turn["calls"]) for turn in turns)}
            turns.append({"calls": calls, "results": []})
            save(state)
        turn = turns[-1]
        for _call, tool, arguments in turn["calls"][len(turn["results"]) :]:
            turn["results"].append(getattr(tracker, tool)(**arguments))
            save(state)


def save(state: dict[str, Any]) -> None:
    """Replace the state in one step: a crash leaves the old one or the new one."""
    draft = STATE.with_suffix(".tmp")
    draft.write_text(json.dumps(state))
    draft.replace(STATE)
