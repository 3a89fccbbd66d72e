"""The command line as a person types it, against a real engine and runners."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from processes import LIMIT_S, lines, until, up, written

APP = Path(__file__).parents[1] / "programs.py"


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    folder = tmp_path_factory.mktemp("commands")
    env = {"MARKS": str(folder / "marks")}
    with up(APP, "--test-clock", cwd=folder, env=env) as found:
        found.marks = folder / "marks"
        yield found


@pytest.fixture
def typed(one, tmp_path):
    def run(*command, status=0, engine=one.client.engine):
        done = subprocess.run(
            [sys.executable, "-m", "outlive", *command],
            cwd=tmp_path,
            env={"PATH": "", "OUTLIVE_ENGINE": engine, "TZ": "UTC"},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == status, (command, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        return done.stdout if status == 0 else done.stderr

    return run


def test_help_names_every_command(typed):
    said = typed("--help")
    for name in ("up", "engine", "runner", "runs", "events", "approvals"):
        assert f"  {name} " in said
        assert "Usage:" in typed(name, "--help")


def test_a_run_is_started_waited_for_listed_and_shown(typed):
    result = json.loads(typed("runs", "start", "steps", "2", "--id", "typed-1", "--wait"))
    assert [one["number"] for one in result] == [0, 1]
    assert typed("runs", "start", "steps", "2", "--id", "typed-1").strip() == "typed-1"
    assert "ids are used once" in typed("runs", "start", "steps", "3", "--id", "typed-1", status=1)
    assert "typed-1" in typed("runs", "list")
    assert "typed-1" in typed("runs", "list", "--state", "completed", "--app", "programs")
    assert "typed-1" not in typed("runs", "list", "--state", "failed")
    shown = typed("runs", "show", "typed-1")
    assert "steps of programs" in shown
    assert "done" in shown
    assert "count#1" in shown
    assert "why it does not move" not in shown
    whole = json.loads(typed("runs", "show", "typed-1", "--json"))
    assert [step["call"] for step in whole["steps"]] == ["count#0", "count#1"]


def test_a_run_that_waits_says_for_what_and_until_when(one, typed):
    sent = typed("events", "send", "nap", '"1d"', "--id", "nap-1")
    run = sent.split("started ")[1].strip()
    assert "had been sent before" in typed("events", "send", "nap", '"1d"', "--id", "nap-1")
    until(lambda: one.client.run(run)["state"] == "waiting")
    shown = typed("runs", "show", run)
    assert "why it does not move: it waits for 1 thing" in shown
    assert "nap#0: its time at " in shown
    assert "(in 23h" in shown
    one.client.post("/v1/test/clock", {"advance_ms": 86_400_000})
    assert one.client.result(run, timeout_s=30)["second"] == 2


def test_a_question_is_listed_and_answered_once(one, typed):
    run = typed("runs", "start", "asking", "5").strip()
    until(lambda: one.client.get("/v1/approvals")["approvals"])
    listed = typed("approvals", "list")
    assert "refund 5 cents?" in listed
    assert '{"cents":5}' in listed
    question = listed.split()[0]
    assert "a person" in typed("runs", "show", run)
    wrong = typed("approvals", "approve", question, "--digest", "0" * 64, status=1)
    assert "is for" in wrong
    assert "approved" in typed("approvals", "approve", question, "--by", "ann")
    assert "already" in typed("approvals", "deny", question, status=1)
    assert one.client.result(run, timeout_s=30) == "ann: True"
    assert "no question is pending" in typed("approvals", "list")
    assert "ann" in typed("approvals", "list", "--state", "all")


def test_a_cancelled_run_cleans_up_and_ends_cancelled(one, typed, tmp_path):
    before = len(lines(one.marks))
    run = typed("runs", "start", "cleaning", json.dumps(str(tmp_path / "go"))).strip()
    written(one.marks, before + 1)
    assert "cancelling" in typed("runs", "cancel", run)
    (tmp_path / "go").touch()
    until(lambda: one.client.run(run)["state"] == "cancelled")
    shown = typed("runs", "show", run)
    assert "cancelling" in shown
    assert "clean#0" in shown
    assert "ended already" in typed("runs", "cancel", run, status=1)


@pytest.mark.parametrize(
    ("command", "status", "says"),
    [
        (("runs", "show", "nothing"), 1, "there is no run nothing"),
        (("runs", "cancel", "a/b c"), 1, "there is no run a/b c"),
        (("runs", "start", "steps", "{"), 2, "is no JSON"),
        (("events", "send", "x", "NaN"), 2, "is no JSON"),
        (("events", "send", "x\ny", "1"), 1, "control characters"),
        (("runs", "list", "--state", "odd"), 1, "there is no state 'odd'"),
        (("approvals", "approve", "nothing"), 1, "there is no approval nothing"),
        (("approvals", "list", "--state", "odd"), 1, "there is no state 'odd'"),
        (("runs", "resume", "nothing"), 1, "there is no run nothing"),
        (("nothing",), 2, "No such command"),
        (("runs", "list", "--engine", "ftp://x"), 2, "is no address"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_a_status(typed, command, status, says):
    assert says in typed(*command, status=status)


def test_no_engine_is_said_with_the_remedy(typed):
    said = typed("runs", "list", status=4, engine="http://127.0.0.1:1")
    assert "is it running?" in said
    assert len(said.splitlines()) == 1
