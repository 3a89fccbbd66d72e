"""Four questions to ask of anything that has checkpoints, answered with real processes.

1. Is the state write and the position write one transaction? Yes.
2. What process notices that my run died, and how long does it live compared with mine? The engine
   and the warden; both outlive the worker, and each other's death is noticed.
3. What stops two workers entering the same run? An epoch that only grows, checked at every write.
4. Does a completed step re-execute? No; it returns its recorded result, of the type it had.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest

from outlive.server.book import Book
from processes import lines, until, up, watched, written

APP = Path(__file__).parents[1] / "programs.py"
STEPS = 400


@pytest.fixture
def marks(tmp_path, monkeypatch):
    path = tmp_path / "marks"
    monkeypatch.setenv("MARKS", str(path))
    return path


def bodies(marks, name):
    return [int(line.split()[1]) for line in lines(marks) if line.startswith(f"{name} ")]


def stored(path):
    """The record of the one run in a store that nobody has open: the calls it holds, in order."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        found = connection.execute("SELECT seq, body FROM entries ORDER BY seq").fetchall()
    assert [seq for seq, _ in found] == list(range(len(found))), "an entry is missing or twice"
    return [entry.call for entry in Book.decoded([body for _, body in found[1:]])]


@pytest.mark.parametrize("seed", range(5))
def test_1_what_a_run_has_done_and_where_it_stands_are_one_write(tmp_path, marks, seed):
    """The record is the position: killed at any moment, no step that was built upon is missing."""
    rng = random.Random(seed)
    with up(APP, cwd=tmp_path) as one:
        one.client.start("steps", STEPS, app="programs")
        written(marks, rng.randrange(20, STEPS - 20))
        pids = [one.engine(), one.program.pid, *one.worker(1), *one.worker(2)]
        with watched(*pids) as gone:
            for pid in pids:
                with suppress(ProcessLookupError):  # gone with the one before it
                    os.kill(pid, signal.SIGKILL)
            gone(20)
    calls = stored(tmp_path / "outlive.db")
    assert calls == [f"count#{n}" for n in range(len(calls))]
    begun = len(lines(marks))
    assert begun - 1 <= len(calls) <= begun, "a body began before the step before it was durable"


def test_2_a_death_is_noticed_by_who_outlives_the_dead(tmp_path, marks):
    """Long leases: nothing here is noticed by a time-out."""
    go = tmp_path / "go"
    with up(APP, "--ttl", "60", "--grace", "60", cwd=tmp_path) as one:
        client = one.client
        run = client.start("holding", str(go), app="programs")
        written(marks, 2)
        worker, _ = one.holder(run)
        os.kill(worker, signal.SIGKILL)  # the warden notices
        written(marks, 3)
        os.kill(one.engine(), signal.SIGKILL)  # `outlive up` notices
        one.engine(life=2)
        found = until(lambda: client.run(run).get("holder"))
        number = int(found.removeprefix("runner-"))
        lives = 2 if one.worker(number)[0] == worker else 1
        holder, warden = one.worker(number, life=lives)
        assert bodies(marks, "hold")[-1] == holder, "the engine's death cost no step a second run"
        with watched(holder) as gone:
            os.kill(warden, signal.SIGKILL)  # the worker goes with it, and `outlive up` notices
            gone(10)
        written(marks, 4)
        go.touch()
        client.result(run, timeout_s=30)
        assert client.run(run)["epoch"] == 3
    assert len(bodies(marks, "count-0")) == 1
    assert len(bodies(marks, "hold")) == 3


def test_3_a_second_owner_shuts_out_the_first(tmp_path, marks):
    """Worker and warden are stopped past the lease, as by a frozen host, and wake up again."""
    go = tmp_path / "go"
    with up(APP, "--ttl", "1.0", "--grace", "1.0", cwd=tmp_path) as one:
        client = one.client
        run = client.start("holding", str(go), app="programs")
        written(marks, 2)
        worker, warden = one.holder(run)
        for pid in (warden, worker):
            os.kill(pid, signal.SIGSTOP)
        written(marks, 3)  # another has it
        assert client.run(run)["epoch"] == 2
        go.touch()
        second = client.result(run, timeout_s=30)
        with watched(worker) as gone:
            # Both would now act: the worker's result is of an old epoch, and its lease is over.
            os.kill(worker, signal.SIGCONT)
            os.kill(warden, signal.SIGCONT)
            gone(20)
        found = client.get(f"/v1/runs/{run}/steps")["steps"]
    assert second != worker
    assert [(step["kind"], step["call"]) for step in found] == [
        ("done", "before#0"),
        ("done", "hold#0"),
    ]
    assert found[-1]["value"] == second


def test_4_a_completed_step_returns_what_it_returned(tmp_path, marks):
    """Killed in the middle again and again: each completed step ran once, and types are kept."""
    rng = random.Random(4)
    with up(APP, "--ttl", "60", "--grace", "60", cwd=tmp_path, runners=3) as one:
        run = one.client.start("steps", STEPS, app="programs")
        killed = set()
        for n in sorted(rng.sample(range(5, STEPS - 5), 3)):
            found = written(marks, n)
            worker = int(found[-1].split()[1])
            if worker not in killed:
                os.kill(worker, signal.SIGKILL)
                killed.add(worker)
        result = one.client.result(run, timeout_s=60)
        found = one.client.get(f"/v1/runs/{run}/steps")["steps"]
    assert [receipt["number"] for receipt in result] == list(range(STEPS))
    assert [step["call"] for step in found] == [f"count#{n}" for n in range(STEPS)]
    ran = [line.split()[0] for line in lines(marks)]
    again = {name for name in ran if ran.count(name) > 1}
    assert len(again) <= len(killed), "a step other than the one in flight ran again"
    assert killed


def test_a_run_sleeps_through_a_restart_of_everything_and_wakes_elsewhere(
    tmp_path, marks, monkeypatch
):
    """Another folder, another home, another hash seed, other processes; the same store."""
    first, second = tmp_path / "first", tmp_path / "second"
    store = f"sqlite:///{tmp_path / 'runs.db'}"
    for folder, seed in ((first, "1"), (second, "2")):
        folder.mkdir()
        (folder / "app.py").write_text(APP.read_text())
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        monkeypatch.setenv("HOME", str(folder))
        with up(folder / "app.py", "--store", store, cwd=folder) as one:
            client = one.client
            if folder is first:
                began = time.monotonic()
                run = client.start("napping", "4s", app="programs", id="sleeper")
                until(lambda c=client: c.run("sleeper")["state"] == "waiting")
            else:
                result = client.result(run, timeout_s=30)
                took = time.monotonic() - began
                epoch = client.run(run)["epoch"]
    assert result == {"first": 1, "second": 2, "where": str(second)}
    assert took >= 4, "it slept as long as it was told to, and not from the start again"
    assert took < 30
    assert epoch == 2
    assert len(bodies(marks, "count-1")) == len(bodies(marks, "count-2")) == 1
