"""Triage agent: files what users report, then sorts and answers it. Asynchronous.

Tools run one after the other in the event loop. The provider numbers the calls of each reply anew,
so a call's place in the run is the turn and its id.
"""

import asyncio

from crashpoint.testing import FileStore, ScriptedModel, call_key

RUN = "triage-monday"
MODEL = ScriptedModel(
    [
        {
            "calls": [
                {"id": "call_0", "tool": "file", "args": {"title": "cannot log in since monday"}},
                {"id": "call_1", "tool": "file", "args": {"title": "export is empty"}},
            ]
        },
        {"calls": [{"id": "call_0", "tool": "search", "args": {"text": "log in"}}]},
        {
            "calls": [
                {"id": "call_0", "tool": "comment", "args": {"nth": 0, "text": "known: cookies"}},
                {"id": "call_1", "tool": "comment", "args": {"nth": 1, "text": "which browser?"}},
            ]
        },
        {"calls": []},
    ]
)


def place_of(turn, call):
    return f"{turn} {call['id']}"


class Agent:
    def __init__(self, tracker):
        self.tracker = tracker
        self.store = FileStore("triage.json")
        self.state = self.store.load() or {"replies": [], "results": {}}

    async def run(self):
        turn = 0
        while True:
            reply = await self.reply(turn)
            if not reply["calls"]:
                return {"turns": turn, "issues": len(self.issues())}
            for call in reply["calls"]:
                place = place_of(turn, call)
                if place not in self.state["results"]:
                    self.state["results"][place] = await self.call(call, call_key(RUN, place))
                    self.store.save(self.state)
            turn += 1

    async def reply(self, turn):
        """A reply that was saved is used again; a new one is saved before it is used."""
        if turn == len(self.state["replies"]):
            await asyncio.sleep(0)
            self.state["replies"].append(MODEL.reply(turn))
            self.store.save(self.state)
        return self.state["replies"][turn]

    async def call(self, call, key):
        await asyncio.sleep(0)
        tool = getattr(self, f"tool_{call['tool']}")
        return await tool(key=key, **call["args"])

    def issues(self):
        """Numbers of the issues filed so far, oldest first."""
        results = self.state["results"].values()
        return [result["issue"] for result in results if "issue" in result]

    async def tool_file(self, title, key):
        return {"issue": self.tracker.file(title, key=key)}

    async def tool_search(self, text, key):
        return {"found": self.tracker.search(text)}

    async def tool_comment(self, nth, text, key):
        return {"comment": self.tracker.comment(self.issues()[nth], text, key=key)}


async def start(tracker):
    return await Agent(tracker).run()
