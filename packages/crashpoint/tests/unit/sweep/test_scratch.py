import signal
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

import pytest

import sweep_jobs
from crashpoint.sweep import scratch
from crashpoint.sweep.api import Job, Options, sweep
from crashpoint.sweep.scratch import clear, remove_what_is_left, scratch_folder
from crashpoint.sweep.words import SweepFault

HOLDS = """
import sys
from crashpoint.sweep.scratch import scratch_folder
with scratch_folder(sys.argv[1]) as folder:
    (folder / "state").mkdir()
    print(folder.name, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Memory and the folder for temporary files, for this process alone."""
    with tempfile.TemporaryDirectory(prefix="cp-", dir="/tmp") as memory:  # short: sockets
        monkeypatch.setattr(scratch, "MEMORY", memory)
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        yield Path(memory), tmp_path


@pytest.fixture
def held():
    """Starts a process that has a folder somewhere: it, and the folder's name."""
    started = []

    def start(parent):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        process = subprocess.Popen([sys.executable, "-c", HOLDS, str(parent)], **pipes)
        started.append(process)
        return process, parent / process.stdout.readline().strip()

    yield start
    for process in started:
        process.kill()
        process.communicate()


def killed(process):
    process.send_signal(signal.SIGKILL)
    process.wait()


def test_a_folder_is_there_and_then_is_not(tmp_path):
    with scratch_folder(str(tmp_path)) as folder:
        (folder / "state").mkdir()
        assert folder.parent == tmp_path
    assert not list(tmp_path.iterdir())


def test_what_a_killed_process_left_is_removed_and_nothing_else(places, held):
    for place in places:
        process, left = held(place)
        _, alive = held(place)
        other = place / "crashpoint-of-somebody"
        other.mkdir()
        killed(process)
        assert (left / "state").is_dir()
        remove_what_is_left()
        assert set(place.iterdir()) == {alive, other}
        assert (alive / "state").is_dir()


def test_its_own_folder_is_held_too(places):
    with scratch_folder(str(places[0])) as folder:
        remove_what_is_left()
        assert folder.is_dir()


def test_one_that_is_removed_before_it_is_held_is_made_again(places, monkeypatch):
    make, made = tempfile.mkdtemp, []

    def mkdtemp(**where):
        made.append(make(**where))
        if len(made) == 1:
            remove_what_is_left()
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", mkdtemp)
    with scratch_folder(str(places[0])) as folder:
        assert folder.is_dir()
        assert str(folder) == made[1]


@pytest.mark.parametrize("mode", ["raise", "fork", "spawn"])
def test_the_next_sweep_removes_it_whatever_its_mode(places, held, mode):
    process, left = held(places[0])
    killed(process)
    assert left.is_dir()
    start = ["false"] if mode == "spawn" else sweep_jobs.careful
    fails = pytest.raises(SweepFault) if mode == "spawn" else nullcontext()
    with fails:
        sweep(Job(start), Options(mode=mode, depth=1))
    assert not left.exists()


def test_a_process_that_gives_up_removes_its_own(tmp_path):
    with scratch_folder(str(tmp_path)) as folder:
        clear()
        assert not folder.exists()
