"""The run's folder goes however its owner ends, and takes registered processes with it."""

import os
import signal
import time
from pathlib import Path

import pytest

from crashpoint.procs.run_folder import FolderFault, run_folder
from leftovers import ended

TESTS = Path(__file__).parents[2]
OWNER = str(TESTS / "integration" / "procs" / "owner.py")


@pytest.fixture
def owner(place, bell):
    def start(*options):
        process = place.start(OWNER, *options, env={**place.env, **bell.env}, stdin=-1)
        rung = bell.wait()
        folder, *pids = rung.word.split()
        return process, rung, Path(folder), [int(pid) for pid in pids]

    return start


def janitor_of(place):
    return place.process("janitor.py")


@pytest.mark.parametrize(
    ("number", "options"),
    [(signal.SIGKILL, ["--stubborn"]), (signal.SIGTERM, []), (signal.SIGINT, [])],
)
def test_the_owner_is_killed(place, owner, number, options):
    process, _, folder, (adopted, stranger, graceful) = owner(*options)
    assert folder.is_dir()
    assert folder.stat().st_mode & 0o777 == 0o700
    janitor = janitor_of(place)
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(janitor, ignored)
    process.send_signal(number)
    process.communicate()
    assert ended(janitor, time.monotonic() + 10)
    assert not folder.exists()
    assert place.processes().keys() == {stranger}
    assert adopted not in place.processes()
    assert graceful not in place.processes()
    os.kill(stranger, signal.SIGKILL)


def test_the_owner_ends(place, owner):
    process, rung, folder, (_, stranger, _) = owner("--then-end")
    rung.let_go()
    process.communicate()
    assert process.returncode == 0
    assert not folder.exists()
    assert place.processes().keys() == {stranger}
    os.kill(stranger, signal.SIGKILL)


def test_without_its_janitor_the_owner_cleans_up(place, owner):
    process, rung, folder, (_, stranger, _) = owner("--then-end")
    os.kill(janitor_of(place), signal.SIGKILL)
    rung.let_go()
    process.communicate()
    assert process.returncode == 0
    assert not folder.exists()
    os.kill(stranger, signal.SIGKILL)


def test_the_path_is_absolute(place, monkeypatch):
    monkeypatch.chdir(place.tmp.parent)
    monkeypatch.setenv("TMPDIR", place.tmp.name)
    with run_folder() as folder:
        assert folder.path.parent == place.tmp


def test_the_longest_socket_fits_exactly(place, monkeypatch):
    used = len(str(place.tmp / "x" / "crashpoint-0123456789ab" / "sockets/witness.sock"))
    for extra, fits in ((107 - used, True), (108 - used, False)):
        parent = place.tmp / ("x" * (1 + extra))
        parent.mkdir()
        monkeypatch.setenv("TMPDIR", str(parent))
        if fits:
            with run_folder() as folder:
                assert folder.path.is_dir()
        else:
            with pytest.raises(FolderFault, match="has 108 bytes, the kernel allows 107"):
                run_folder().__enter__()
        parent.rmdir()
