import sys
from functools import cache

import pytest

from crashpoint.pipeline.crash import Basis
from crashpoint.receivers.dialect import KEYED
from crashpoint.sweep.api import Job, Options, sweep
from crashpoint.sweep.designs import DESIGNS
from crashpoint.sweep.engine import Sweep
from crashpoint.sweep.faults import SweepFaultKind
from crashpoint.sweep.published import differences
from crashpoint.sweep.report import as_json
from crashpoint.sweep.table import MODES, count
from sweep_jobs import careless, hasty


def test_a_design_that_is_killed_gives_the_published_row():
    design = DESIGNS[0]
    with MODES["fork"](design) as crasher:
        row = count(design, Sweep(crasher, dedupe=True), lambda _scenario: None)
    assert differences([vars(row)]) == []


@cache
def told(job, mode, fault=SweepFaultKind.KILL):
    options = Options(mode=mode, receivers={"tracker": KEYED}, fault=fault)
    return as_json(sweep(Job(job, name="job"), options))


@pytest.mark.parametrize("job", [careless, hasty])
def test_an_exception_and_a_kill_come_to_the_same(job):
    raised, killed = told(job, "raise"), told(job, "fork")
    for member in ("points", "places", "outcomes", "sums", "firsts", "failures", "clean"):
        assert raised[member] == killed[member], member


def test_the_basis_says_how_it_is_known():
    assert told(careless, "raise")["basis"] == Basis.IN_PROCESS
    assert told(careless, "fork")["basis"] == Basis.KILLED


@pytest.mark.parametrize(
    "fault", [SweepFaultKind.ERROR, SweepFaultKind.LOST_REPLY, SweepFaultKind.LATE_ACCEPT]
)
def test_a_fault_comes_to_the_same_whether_its_world_is_copied_or_made_again(fault):
    raised, killed = told(careless, "raise", fault), told(careless, "fork", fault)
    assert raised["outcomes"] == killed["outcomes"]
    assert raised["firsts"] == killed["firsts"]


@pytest.mark.parametrize("job", [careless, hasty])
def test_both_tell_the_same_story(job):
    raised, killed = told(job, "raise")["stories"][0], told(job, "fork")["stories"][0]
    assert raised == killed


PLACED = """
import json, os, socket, urllib.request

def announce(**more):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.environ["CRASHPOINT_POINTS"])
        line = json.dumps({"trial": os.environ["CRASHPOINT_TRIAL"], **more})
        connection.sendall(line.encode() + b"\\n")
        assert json.loads(connection.makefile().readline()) == {"go": True}

def places(place):
    return {"place": place} if "CRASHPOINT_PLACES" in os.environ else {}

announce(point="begun", **places("agent.mjs:12 save"), other=[1])
request = {"op": "file", "args": {"title": "t", "body": ""}, "key": "k"}
urllib.request.urlopen(os.environ["CRASHPOINT_TRACKER"], json.dumps(request).encode())
announce(point="accepted:file", **places("agent.mjs:13"))
announce(point="ended", **places(7))
"""


def test_a_command_may_say_where_it_stands(tmp_path):
    program = tmp_path / "placed.py"
    program.write_text(PLACED)
    report = sweep(Job([sys.executable, str(program)]), Options(mode="spawn", depth=1))
    report.assert_exactly_once()
    assert list(report.points) == ["begun", "accepted:file", "ended"]
    assert list(report.places) == ["agent.mjs:12 save", "agent.mjs:13", ""]
