"""The controls and the LangGraph graph with one guard removed each. Runs inside subjects."""

import os
import sqlite3
import threading

from crashpoint.adapters.controls import program
from crashpoint.inside.client import effect, reach

OTHER_S = 20.0
"""Longest wait for another thread, seconds; it is over in a few milliseconds."""
HELD_S = 1.0
"""How long a write stays open when nothing is announced meanwhile."""


def run(how, **declared):
    """The program of the controls, without a guard."""
    CONTROLS[how]()
    return program.run(**declared)


def graph(how, function, **given):
    """A function of LangGraph's workflow, without a guard.

    Guards of the moment at which it is struck are removed in the first process only.
    """
    from crashpoint.adapters.langgraph import workflow

    # The default waits five seconds for a lock that a frozen process will not give up.
    workflow._connect = lambda database: sqlite3.connect(
        database, check_same_thread=False, timeout=0.1
    )
    if function == "start" or how in KEYS:
        LANGGRAPH[how](workflow)
    return getattr(workflow, function)(**given)


def _without_key(name, action, key=None):
    return effect(name, action)


def _with_another_key_each_time(name, action, key=None):
    return effect(name, action, os.urandom(16).hex())


def _with_one_key(name, action, key=None):
    return effect(name, action, "order-7")


def _patch_effect(replacement):
    def patch(module=program):
        module.effect = replacement

    return patch


def _fresh_identity():
    program._identity = lambda store: os.urandom(16).hex()


def _persist_before_b1():
    """The program announces b1 when it is past it."""

    def pay(store, persist_order, effect_mode, determinism):
        reach("b0")
        effect(program.EFFECT, {"charge": "order-7"}, "order-7" if effect_mode != "naive" else None)
        store.put("completed", True)
        reach("b1")
        reach("b2")

    program._pay = pay


def _put_writes_is_not_held(workflow):
    """The payment's pending writes are durable when `put` announces b1."""
    saver = workflow.AnnouncingSaver
    written = threading.Event()

    def put_writes(self, config, writes, task_id, task_path=""):
        super(saver, self).put_writes(config, writes, task_id, task_path)
        if _is_about("payment", writes):
            written.set()

    def hold(self):
        assert written.wait(OTHER_S)
        self.announce("b1")

    saver.put_writes, saver._hold_at_b1 = put_writes, hold


def _a_write_is_late(workflow):
    """Pending writes of the step before are being written while the payment begins."""
    saver = workflow.AnnouncingSaver
    put, put_writes, announce = saver.put, saver.put_writes, saver.announce
    superseded, writing, answered = threading.Event(), threading.Event(), threading.Event()

    def put_first(self, config, checkpoint, metadata, new_versions):
        saved = put(self, config, checkpoint, metadata, new_versions)
        if "identity" in new_versions:
            superseded.set()
        return saved

    def put_writes_later(self, config, writes, task_id, task_path=""):
        if _is_about("identity", writes):
            assert superseded.wait(OTHER_S)
            with self.cursor() as cursor:
                cursor.execute("BEGIN IMMEDIATE")
                writing.set()
                answered.wait(HELD_S)
        put_writes(self, config, writes, task_id, task_path)

    def announce_meanwhile(self, point):
        assert writing.wait(OTHER_S)
        announce(self, point)
        answered.set()

    saver.put, saver.put_writes, saver.announce = put_first, put_writes_later, announce_meanwhile


def _points_are_not_held(workflow):
    """A point is announced whatever other threads are writing."""
    workflow.AnnouncingSaver.announce = lambda self, point: reach(point)
    _a_write_is_late(workflow)


def _is_about(channel, writes):
    return any(name == channel for name, _ in writes)


CONTROLS = {
    "as_it_is": lambda: None,
    "idem_without_a_key": _patch_effect(_without_key),
    "twophase_with_a_fresh_identity": _fresh_identity,
    "dup_with_a_key": _patch_effect(_with_one_key),
    "dup_past_b1": _persist_before_b1,
    "idem_past_b1": _persist_before_b1,
}
LANGGRAPH = {
    "as_it_is": lambda workflow: None,
    "idem_without_a_key": _patch_effect(_without_key),
    "twophase_with_a_fresh_identity": _patch_effect(_with_another_key_each_time),
    "naive_not_held": _put_writes_is_not_held,
    "idem_not_held": _put_writes_is_not_held,
    "naive_with_a_late_write": _a_write_is_late,
    "naive_in_a_late_write": _points_are_not_held,
}
KEYS = ("idem_without_a_key", "twophase_with_a_fresh_identity")
"""Variations of what the program is, and not of the moment at which it is struck."""
