"""Runs that are interrupted, terminated or killed: what was sealed is kept, and nothing else."""

import json
import os
import signal
from pathlib import Path

import pytest

from acceptance.runs import BROKEN, CRASHPOINT, Run
from crashpoint.harness.verify import verify
from events import Bell, whole_lines
from leftovers import nothing_left

LONG = ("--k", "5000", "--runtimes", "r_dup,r_idem", "--barriers", "b1", "--cold", "0")
SLOW_IMPORT = "acceptance.broken_program,acceptance.slow_import"


@pytest.fixture
def place():
    with nothing_left() as place:
        yield place


@pytest.fixture
def bell(place):
    bell = Bell(place.out.parent / "bell")
    yield bell
    bell.close()


@pytest.mark.parametrize(
    ("number", "send", "times"),
    [
        (signal.SIGINT, os.kill, 1),
        (signal.SIGINT, os.kill, 2),
        (signal.SIGINT, os.killpg, 1),
        (signal.SIGINT, os.killpg, 2),
        (signal.SIGTERM, os.kill, 1),
    ],
)
def test_what_is_done_is_sealed(place, number, send, times):
    run = Run(place, *LONG)
    whole_lines(run.sealed, 6)
    for _ in range(times):
        send(run.process.pid, number)
    run.end()
    document = json.loads(run.partial.read_bytes())
    done = len(document["trials"])
    assert run.code == 130
    assert f"interrupted: {done} sealed trials are in {run.partial}" in run.err.splitlines()
    assert done >= 3
    assert not document["complete"]
    assert "PARTIAL: the run was interrupted" in verify(run.partial).warnings
    assert run.files() == ["m.json", "m.partial.json"]
    assert run.kept_the_old_evidence()


@pytest.mark.parametrize(("row", "fault"), [("rings", "kill"), ("recovery_hangs", "freeze")])
def test_nobody_waits_for_a_subject_that_hangs(place, bell, row, fault):
    rows = ("--rows", f"well,{row}", "--jobs", "1", "--fault", fault, "--limit", "1000")
    run = Run(place, *rows, command=BROKEN, bell=bell)
    bell.wait()
    run.process.send_signal(signal.SIGINT)
    run.end()
    assert run.code == 130
    assert [t["row"] for t in json.loads(run.partial.read_bytes())["trials"]] == ["well"]
    assert "PARTIAL: the run was interrupted" in verify(run.partial).warnings


def test_an_earlier_partial_file_is_set_aside(place):
    for earlier in (b"one", b"two"):
        (place.out / "m.partial.json").write_bytes(earlier)
        os.utime(place.out / "m.partial.json", (0, 0))
        run = Run(place, *LONG)
        whole_lines(run.sealed, 4)
        run.process.send_signal(signal.SIGINT)
        run.end()
    aside = ["m.partial.19700101T000000Z-1.json", "m.partial.19700101T000000Z.json"]
    assert run.files() == ["m.json", *aside, "m.partial.json"]
    assert [(place.out / name).read_bytes() for name in aside] == [b"two", b"one"]


def test_interrupted_while_an_engine_is_imported(place, bell):
    run = Run(place, "--rows", "well", "--preload", SLOW_IMPORT, command=BROKEN, bell=bell)
    importing = bell.wait()
    assert importing.word == "import"
    run.process.send_signal(signal.SIGINT)
    importing.let_go()
    run.end()
    assert run.code == 130
    assert json.loads(run.partial.read_bytes())["trials"] == []
    assert "PARTIAL: the run was interrupted" in verify(run.partial).warnings


def test_killed_while_an_engine_is_imported(place, bell):
    run = Run(place, "--rows", "well", "--preload", SLOW_IMPORT, command=BROKEN, bell=bell)
    assert bell.wait().word == "import"
    run.process.kill()
    run.end()
    assert run.sealed.read_bytes() == b""
    assert run.kept_the_old_evidence()


def test_killed_while_a_first_process_runs(place, bell):
    run = Run(place, "--rows", "well,rings", "--jobs", "1", command=BROKEN, bell=bell)
    assert bell.wait().word == "first"
    run.process.kill()
    run.end()
    assert run.sealed_trials() == 1
    assert run.kept_the_old_evidence()


@pytest.mark.parametrize("fault", ["kill", "freeze"])
def test_killed_while_a_recovery_runs(place, bell, fault):
    rows = ("--rows", "well,recovery_hangs", "--jobs", "1", "--fault", fault)
    run = Run(place, *rows, command=BROKEN, bell=bell)
    assert bell.wait().word == "recovery"
    stopped = [pid for pid in place.processes() if _state(pid) == "T"]
    assert len(stopped) == (fault == "freeze")
    run.process.kill()
    run.end()
    assert run.sealed_trials() == 1
    assert run.kept_the_old_evidence()


def test_killed_in_the_middle_of_anything(place):
    run = Run(place, *LONG, "--jobs", "8", "--fault", "freeze")
    whole_lines(run.sealed, 20)
    run.process.kill()
    run.end()
    sealed = run.sealed_trials()
    assert sealed >= 15
    assert run.files() == ["m.json", "m.partial.jsonl"]
    verified = place.run("verify", "o/m.partial.jsonl", program=CRASHPOINT)
    assert verified.returncode == 0
    assert verified.stdout.splitlines() == [
        f"ok    o/m.partial.jsonl: {sealed} sealed trials of a run that was cut off",
        "      PARTIAL: not closed",
    ]


def test_the_next_run_keeps_what_a_killed_one_had_sealed(place):
    killed = Run(place, *LONG)
    whole_lines(killed.sealed, 6)
    killed.process.kill()
    killed.end()
    sealed = killed.sealed.read_bytes()
    (place.out / ".m.json.1.tmp").write_bytes(b"a draft that was being written")
    run = Run(place, "--k", "1", "--runtimes", "r_dup", "--barriers", "b1")
    run.end()
    (aside,) = place.out.glob("m.partial.*.jsonl")
    assert aside.read_bytes() == sealed
    assert run.code == 0


def _state(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
