"""What stops a run until a person has looked: said in one line, mended, and gone on with."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from processes import LIMIT_S, lines, until, up

HEAD = """
import asyncio, os, threading
from pathlib import Path
from outlive import App, Context, Retry
app = App("changing", retry=Retry(attempts=1))
def mark(text):
    with open(os.environ["MARKS"], "a") as file:
        file.write(text + "\\n")
def one(): mark("one"); return 1
def two(): mark("two"); return 2
"""
BEFORE = """
@app.workflow
async def flow(ctx: Context):
    a = await ctx.step.run("one", one)
    await ctx.step.sleep("nap", "1d")
    return a + await ctx.step.run("two", two)
"""
CHANGED = {
    "another id": BEFORE.replace('"one", one', '"first", one'),
    "another kind": BEFORE.replace('step.run("one", one)', 'step.sleep("one", 1)').replace(
        "a +", "1 +"
    ),
    "a step less": BEFORE.replace('a = await ctx.step.run("one", one)', "a = 1"),
    "it ends before the record does": "\n@app.workflow\nasync def flow(ctx): return 7\n",
}
BORNE = {
    "another body": BEFORE.replace("a + await", "10 * a + await"),
    "a step after the last recorded one": BEFORE.replace(
        "return a +", 'await ctx.step.run("new", one)\n    return a +'
    ),
}


@pytest.fixture
def marks(tmp_path, monkeypatch):
    path = tmp_path / "marks"
    monkeypatch.setenv("MARKS", str(path))
    return path


def outlive(one, *command, status=0):
    done = subprocess.run(
        [sys.executable, "-m", "outlive", *command, "--engine", one.client.engine],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == status, done.stderr
    return done.stdout + done.stderr


def slept(tmp_path, code):
    """The run of BEFORE asleep in a store, and then `code` in place of it."""
    app = tmp_path / "changing.py"
    app.write_text(HEAD + BEFORE)
    with up(app, "--test-clock", cwd=tmp_path, runners=1) as one:
        one.client.start("flow", app="changing", id="run")
        until(lambda: one.client.run("run")["state"] == "waiting")
    app.write_text(HEAD + code)
    return app


def wake(one):
    one.client.post("/v1/test/clock", {"advance_ms": 86_400_000})


@pytest.mark.parametrize("change", CHANGED)
def test_code_that_the_record_cannot_bear_stops_and_goes_on_when_put_back(tmp_path, marks, change):
    app = slept(tmp_path, CHANGED[change])
    with up(app, "--test-clock", cwd=tmp_path, runners=1) as one:
        wake(one)
        found = until(
            lambda: r if (r := one.client.run("run"))["state"] == "needs_attention" else None
        )
        assert "the code has changed" in found["cause"]
        assert "entry 1, one#0 done" in found["cause"]
        assert "\n" not in found["cause"]
        shown = outlive(one, "runs", "show", "run")
        assert "why it does not move: the code has changed" in shown
        assert "a person" in shown
    app.write_text(HEAD + BEFORE)
    with up(app, "--test-clock", cwd=tmp_path, runners=1) as one:
        assert "queued" in outlive(one, "runs", "resume", "run")
        until(lambda: one.client.run("run")["state"] == "waiting" or one.client.run("run"))
        wake(one)
        assert one.client.result("run", timeout_s=30) == 3
    assert lines(marks) == ["one", "two"]


@pytest.mark.parametrize("change", BORNE)
def test_code_that_the_record_can_bear_goes_on_silently(tmp_path, marks, change):
    app = slept(tmp_path, BORNE[change])
    with up(app, "--test-clock", cwd=tmp_path, runners=1) as one:
        wake(one)
        assert one.client.result("run", timeout_s=30) in {3, 12}
    assert lines(marks)[0] == "one"
    assert lines(marks)[-1] == "two"


UNSTORABLE = """
class Odd: pass
def odd(): mark("odd"); return {"lock": threading.Lock()}
def deep():
    mark("odd"); found = []
    for _ in range(10_000): found = [found]
    return found
def large(): mark("odd"); return "x" * (17 << 20)
def half(): mark("odd"); return {"text": "\\ud800"}
def mine(): mark("odd"); return Odd()
@app.workflow
async def flow(ctx: Context, name: str):
    return await ctx.step.run("odd", globals()[name], retry=Retry(attempts=5, first="0s"))
"""


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("odd", "result.lock is _thread.lock"),
        ("deep", "nested more than 100 deep"),
        ("large", "the most is 16,777,216"),
        ("half", "result.text has half a surrogate pair"),
        ("mine", "Odd"),
    ],
)
def test_a_result_that_cannot_be_recorded_happened_once_and_may_be_supplied(
    tmp_path, marks, name, says
):
    app = tmp_path / "changing.py"
    app.write_text(HEAD + UNSTORABLE)
    with up(app, cwd=tmp_path, runners=1) as one:
        one.client.start("flow", name, app="changing", id="run")
        found = until(
            lambda: r if (r := one.client.run("run"))["state"] == "needs_attention" else None
        )
        assert "cannot be stored" in found["cause"]
        assert says in outlive(one, "runs", "show", "run", "--json")
        outlive(one, "runs", "supply", "run", "other#0", "1", status=1)
        outlive(one, "runs", "supply", "run", "odd#0", json.dumps({"lock": "closed"}))
        assert one.client.result("run", timeout_s=30) == {"lock": "closed"}
    assert lines(marks) == ["odd"], "what happened is never run again"
