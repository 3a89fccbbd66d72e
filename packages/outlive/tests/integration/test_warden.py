"""A warden and its worker, with a real engine: who lives, who is ended, and what is said of it."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import pytest

from processes import lines, program, until, up, watched, written

APP = Path(__file__).parents[1] / "programs.py"
SHORT = ("--ttl", "1.0", "--grace", "1.0")
LONG = ("--ttl", "60", "--grace", "60")


@pytest.fixture
def marks(tmp_path, monkeypatch):
    path = tmp_path / "marks"
    monkeypatch.setenv("MARKS", str(path))
    return path


def bodies(marks, name):
    return [int(line.split()[1]) for line in lines(marks) if line.startswith(f"{name} ")]


def test_a_killed_workers_runs_go_on_at_once_though_the_lease_is_long(tmp_path, marks):
    go = tmp_path / "go"
    with up(APP, *LONG, cwd=tmp_path) as one:
        run = one.client.start("holding", str(go), app="programs")
        written(marks, 2)
        worker, _ = one.holder(run)
        at = time.monotonic()
        os.kill(worker, signal.SIGKILL)
        written(marks, 3)
        assert time.monotonic() - at < 5
        go.touch()
        second = one.client.result(run, timeout_s=30)
    assert bodies(marks, "count-0") == [worker], "a completed step is not run again"
    assert bodies(marks, "hold") == [worker, second]


def test_a_worker_dies_with_its_warden(tmp_path, marks):
    go = tmp_path / "go"
    with up(APP, *LONG, cwd=tmp_path) as one:
        run = one.client.start("holding", str(go), app="programs")
        written(marks, 2)
        worker, warden = one.holder(run)
        with watched(worker, warden) as gone:
            os.kill(warden, signal.SIGKILL)
            gone(5)
        written(marks, 3)  # `outlive up` saw both end, and said so
        go.touch()
        assert one.client.result(run, timeout_s=30) != worker


def test_a_stopped_worker_is_ended_before_its_lease_is(tmp_path, marks):
    go = tmp_path / "go"
    with up(APP, *SHORT, cwd=tmp_path) as one:
        run = one.client.start("holding", str(go), app="programs")
        written(marks, 2)
        worker, _ = one.holder(run)
        with watched(worker) as gone:
            os.kill(worker, signal.SIGSTOP)
            gone(1.0)
        written(marks, 3)
        go.touch()
        assert one.client.result(run, timeout_s=30) != worker
        assert "it is stopped" in one.program.output


def test_a_worker_that_was_stopped_for_a_moment_goes_on(tmp_path, marks):
    go = tmp_path / "go"
    with up(APP, "--ttl", "20", cwd=tmp_path) as one:
        run = one.client.start("holding", str(go), app="programs")
        written(marks, 2)
        worker, _ = one.holder(run)
        os.kill(worker, signal.SIGSTOP)
        until(lambda: "T" in Path(f"/proc/{worker}/stat").read_text().split()[2])
        os.kill(worker, signal.SIGCONT)
        go.touch()
        assert one.client.result(run, timeout_s=30) == worker
    assert bodies(marks, "hold") == [worker]


def test_no_answer_from_the_engine_ends_a_worker_before_its_lease_is_over(tmp_path, marks):
    go = tmp_path / "go"
    with up(APP, *SHORT, cwd=tmp_path) as one:
        run = one.client.start("holding", str(go), app="programs")
        written(marks, 2)
        worker, _ = one.holder(run)
        engine = one.engine()
        with watched(worker) as gone:
            os.kill(engine, signal.SIGSTOP)
            try:
                gone(1.0)
            finally:
                os.kill(engine, signal.SIGCONT)
        go.touch()
        assert one.client.result(run, timeout_s=30) != worker
        assert one.client.run(run)["epoch"] == 2


@pytest.mark.parametrize("leases", [30])
def test_a_step_that_holds_the_interpreter_for_30_leases_is_not_taken_over(tmp_path, marks, leases):
    began = time.perf_counter()
    sum(range(20_000_000))
    per_s = 20_000_000 / (time.perf_counter() - began)
    ttl_s = 0.2
    number = int(per_s * ttl_s * leases)
    with up(APP, "--ttl", str(ttl_s), "--grace", "1.0", cwd=tmp_path) as one:
        run = one.client.start("holding_interpreter", number, app="programs")
        one.client.result(run, timeout_s=60)
        assert one.client.run(run)["epoch"] == 1
    assert len(bodies(marks, "gil")) == len(bodies(marks, "gil-over")) == 1


def test_what_a_step_started_goes_with_its_worker(tmp_path, marks):
    with up(APP, *LONG, cwd=tmp_path, runners=1) as one:
        run = one.client.start("with_child", app="programs")
        child = int(written(marks, 1)[0].split()[0].removeprefix("child-"))
        worker, _ = one.holder(run)
        with watched(child) as gone:
            os.kill(worker, signal.SIGKILL)
            gone(5)


def test_a_worker_that_is_told_to_stop_finishes_its_body_and_hands_in_the_result(tmp_path, marks):
    go = tmp_path / "go"
    with up(APP, *LONG, cwd=tmp_path, runners=1) as one:
        run = one.client.start("holding", str(go), app="programs")
        written(marks, 2)
        worker, warden = one.worker()
        with watched(worker, warden) as gone:
            os.kill(warden, signal.SIGTERM)
            until(lambda: one.client.get("/v1/apps")["apps"]["programs"]["runners"])
            go.touch()
            gone(20)
        assert one.client.result(run, timeout_s=30) == worker
    assert bodies(marks, "hold") == bodies(marks, "held") == [worker]


def test_told_twice_it_ends_at_once(tmp_path, marks):
    with (
        program("engine", "--listen", "127.0.0.1:0", cwd=tmp_path) as engine,
    ):
        url = engine.said(r"outlive engine: (http\S+),")[1]
        with program("runner", str(APP), "--engine", url, cwd=tmp_path) as runner:
            worker = int(runner.said(r"worker (\d+) is ready")[1])
            from outlive.client import Client

            Client(url).start("holding", "never", app="programs")
            written(marks, 2)
            with watched(worker) as gone:
                runner.send(signal.SIGTERM)
                runner.send(signal.SIGINT)  # another one: two of a kind may count as one
                gone(5)
            assert runner.wait() == 0


def test_a_body_that_ends_its_process_again_and_again_parks_its_run(tmp_path, marks):
    with up(APP, *LONG, cwd=tmp_path) as one:
        run = one.client.start("dying", app="programs")
        found = until(
            lambda: r if (r := one.client.run(run))["state"] == "needs_attention" else None
        )
        assert re.search(r"died 3 times.*(die#0|as a body began)", found["cause"])
        other = one.client.start("steps", 2, app="programs")
        assert len(one.client.result(other, timeout_s=60)) == 2


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (None, "there is no file"),
        ("x = 1\n", "has no App"),
        ("from outlive import App\na = App('a')\nb = App('b')\n", "has 2 Apps"),
        ("import nowhere\n", "ModuleNotFoundError"),
        ("raise RuntimeError('boom')\n", "boom"),
        ("def f(:\n", "SyntaxError"),
    ],
)
def test_an_app_that_cannot_be_loaded_is_said_and_not_tried_for_ever(tmp_path, code, says):
    path = tmp_path / "bad.py"
    if code is not None:
        path.write_text(code)
    with program("up", str(path), "--listen", "127.0.0.1:0", cwd=tmp_path) as one:
        assert one.wait() == 2
        assert says in one.output


def test_names_of_apps_and_modules(tmp_path, marks):
    (tmp_path / "two.py").write_text(
        "from outlive import App\na = App('first')\nb = App('second')\n"
    )
    with program("engine", "--listen", "127.0.0.1:0", cwd=tmp_path) as engine:
        url = engine.said(r"outlive engine: (http\S+),")[1]
        for target in ("two.py:a", "two:b"):
            with program("runner", target, "--engine", url, cwd=tmp_path) as runner:
                runner.said("is ready")
        with program("runner", "two.py:c", "--engine", url, cwd=tmp_path) as runner:
            assert runner.wait() == 2
            assert "has no App 'c' (there: a, b)" in runner.output


def test_a_wrong_key_is_refused_in_one_line(tmp_path):
    env = {"OUTLIVE_KEY": "right"}
    with program("engine", "--listen", "127.0.0.1:0", cwd=tmp_path, env=env) as engine:
        url = engine.said(r"outlive engine: (http\S+),")[1]
        options = ["runner", str(APP), "--engine", url]
        with program(*options, cwd=tmp_path, env={"OUTLIVE_KEY": "wrong"}) as runner:
            assert runner.wait() == 3
            assert "OUTLIVE_KEY" in runner.output
            assert len(runner.output.splitlines()) == 1
        with program(*options, cwd=tmp_path, env=env) as runner:
            runner.said("is ready")
