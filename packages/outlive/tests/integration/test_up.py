"""`outlive up`: what it starts again, what it refuses, and that nothing is left behind."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest

from processes import program, until, up, watched

APP = Path(__file__).parents[1] / "programs.py"


@pytest.fixture(autouse=True)
def _marks(tmp_path, monkeypatch):
    monkeypatch.setenv("MARKS", str(tmp_path / "marks"))


def everybody(one):
    pids = [one.engine()]
    for n in (1, 2):
        pids += one.worker(n)
    return pids


def test_told_to_stop_it_ends_with_0_and_leaves_nothing(tmp_path):
    with up(APP, cwd=tmp_path) as one:
        with watched(*everybody(one)) as gone:
            one.program.send(signal.SIGTERM)
            gone(20)
        assert one.program.wait() == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["outlive.db"]


def test_killed_it_takes_all_of_its_own_with_it(tmp_path):
    with up(APP, cwd=tmp_path) as one, watched(*everybody(one)) as gone:
        one.program.send(signal.SIGKILL)
        gone(20)


def test_an_engine_that_is_killed_comes_back_at_its_address_with_all_it_knew(tmp_path):
    with up(APP, cwd=tmp_path) as one:
        client = one.client
        run = client.start("steps", 3, app="programs", id="before")
        before = client.result(run, timeout_s=30)
        os.kill(one.engine(), signal.SIGKILL)
        assert one.engine(life=2) != one.engine()
        assert until(lambda: client.run(run))["result"] == before
        assert len(client.result(client.start("steps", 3, app="programs"), timeout_s=30)) == 3


def test_a_stopped_engine_is_ended_when_it_is_told_to_stop(tmp_path):
    with up(APP, cwd=tmp_path, runners=1) as one:
        engine = one.engine()
        with watched(engine) as gone:
            os.kill(engine, signal.SIGSTOP)
            one.program.send(signal.SIGTERM)
            one.program.send(signal.SIGINT)
            gone(20)


def test_a_port_that_is_taken_is_said_in_one_line(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        with program("up", str(APP), "--listen", listen, cwd=tmp_path) as one:
            assert one.wait() == 2
            (line,) = one.lines
            assert f"cannot listen on {listen}" in line


def test_a_second_one_on_the_same_store_is_refused(tmp_path):
    command = ["up", str(APP), "--listen", "127.0.0.1:0"]
    with up(APP, cwd=tmp_path), program(*command, cwd=tmp_path) as second:
        assert second.wait() == 2
        assert "one file has one engine" in second.output
        assert len(second.lines) == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--listen", "nowhere"], "is no HOST:PORT"),
        (["--listen", "127.0.0.1:99999"], "is no HOST:PORT"),
        (["--store", "mysql://x"], "is no store"),
        (["--store", "sqlite:///no/such/folder/x.db"], "there is no folder"),
        (["--runners", "0"], "0 is not in the range"),
        (["--ttl", "0"], "not in the range"),
    ],
)
def test_wrong_options_are_said_and_start_nothing(tmp_path, options, says):
    if "--listen" not in options:
        options = [*options, "--listen", "127.0.0.1:0"]
    with program("up", str(APP), *options, cwd=tmp_path) as one:
        assert one.wait() == 2
        assert says in one.output
        assert "Traceback" not in one.output


def test_off_loopback_it_asks_for_a_key(tmp_path):
    with program("up", str(APP), "--listen", "0.0.0.0:0", cwd=tmp_path) as one:
        assert one.wait() == 2
        assert "set OUTLIVE_KEY" in one.output
