"""Faults deliver what they are named after, to the whole tree, and say what they did."""

import asyncio
import time

import pytest

from crashpoint.model import FaultKind
from crashpoint.pipeline.faults import FAULTS
from crashpoint.pipeline.points import Point, Reached


class Tree:
    """Three processes that are told."""

    def __init__(self):
        self.told = []

    def stop(self):
        self.told.append("stop")
        return [10, 11, 12]

    def kill(self):
        self.told.append("kill")
        return [10, 11, 12]


def delivered(kind, pid):
    async def deliver():
        at = Reached(Point("barrier", "b1"), pid, asyncio.get_running_loop().create_future())
        fired = await FAULTS[kind].deliver(at, tree)
        assert not at.answer.done()
        return fired

    tree = Tree()
    return asyncio.run(deliver()), tree.told


def test_every_fault_of_the_model_can_be_delivered():
    assert FAULTS.keys() == set(FaultKind)
    assert all(fault.kind == kind for kind, fault in FAULTS.items())


@pytest.mark.parametrize(
    ("kind", "signalled", "ends"), [("kill", "kill", True), ("freeze", "stop", False)]
)
def test_what_is_delivered(kind, signalled, ends):
    before = time.time_ns()
    fired, told = delivered(kind, 11)
    assert told == [signalled]
    assert FAULTS[kind].ends_process is ends
    assert (fired.point, fired.pids, fired.announced_within) == ("b1", 3, True)
    assert before <= fired.at_ns <= time.time_ns()
    assert fired.took_us >= 0


def test_an_announcement_from_outside_is_told_apart():
    fired, _ = delivered("kill", 99)
    assert not fired.announced_within
