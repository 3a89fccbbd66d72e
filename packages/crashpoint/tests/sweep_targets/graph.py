"""A LangGraph graph of three nodes, each of which changes something outside; state in SqliteSaver.

Its points come from the tools and from a checkpointer that announces what LangGraph saves and when.
`naive` sends no keys; `keyed` makes them from the thread and the node.
"""

import sqlite3
from contextlib import closing
from functools import partial
from typing import TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph

from crashpoint.testing import call_key, point

THREAD = "complaint-7"
CONFIG = {
    "configurable": {"thread_id": THREAD},
    # A node's writes and the checkpoint that supersedes them go to one pool, and nothing else
    # orders them; with one worker they happen in the order in which LangGraph submits them.
    "max_concurrency": 1,
}
CENTS = 4_900


class Complaint(TypedDict, total=False):
    order: str
    issue: int
    charge: int
    refund: int
    answer: int


class AnnouncingSaver(SqliteSaver):
    """Passes a point before and after each save, so that a crash can fall on either side of it."""

    def put(self, config, checkpoint, metadata, new_versions):
        step = f"step {metadata['step']}"
        point("checkpoint", step)
        saved = super().put(config, checkpoint, metadata, new_versions)
        point("checkpointed", step)
        return saved

    def put_writes(self, config, writes, task_id, task_path=""):
        names = (channel for channel, _ in writes if not channel.startswith("branch:"))
        channels = "+".join(sorted(names))
        point("writes", channels)
        super().put_writes(config, writes, task_id, task_path)
        point("writesaved", channels)


def graph_of(tracker, payments, key):
    def open_case(state: Complaint) -> Complaint:
        issue = tracker.file(f"{state['order']} arrived broken", key=key("open_case"))
        return {"issue": issue}

    def pay_back(state: Complaint) -> Complaint:
        charges = payments.look_up(state["order"])
        charge = charges[0]["charge"]
        return {"charge": charge, "refund": payments.refund(charge, CENTS, key=key("pay_back"))}

    def answer(state: Complaint) -> Complaint:
        text = f"{CENTS} cents are on their way back"
        return {"answer": tracker.comment(state["issue"], text, key=key("answer"))}

    graph = StateGraph(Complaint)
    graph.add_node("open_case", open_case)
    graph.add_node("pay_back", pay_back)
    graph.add_node("answer_customer", answer)
    graph.add_edge(START, "open_case")
    graph.add_edge("open_case", "pay_back")
    graph.add_edge("pay_back", "answer_customer")
    graph.add_edge("answer_customer", END)
    return graph


def no_key(_node):
    return None


def run(tracker, payments, key):
    payments.charge("order-7", 2 * CENTS, key=call_key("shop", "order-7"))
    with closing(sqlite3.connect("graph.db", check_same_thread=False)) as connection:
        graph = graph_of(tracker, payments, key).compile(checkpointer=AnnouncingSaver(connection))
        is_new = graph.checkpointer.get_tuple(CONFIG) is None
        given = {"order": "order-7"} if is_new else None
        return graph.invoke(given, CONFIG, durability="sync")


def naive(tracker, payments):
    return run(tracker, payments, no_key)


def keyed(tracker, payments):
    return run(tracker, payments, partial(call_key, THREAD))
