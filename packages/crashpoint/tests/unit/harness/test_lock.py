"""One run a file: who holds the name, who is refused, and that it is free again."""

import subprocess
import sys

import pytest

from crashpoint.harness.lock import NameTaken, name_lock

HOLD = """
import sys
from pathlib import Path
from crashpoint.harness.lock import name_lock
with name_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_name_is_held_once(tmp_path):
    target = tmp_path / "m.json"
    with name_lock(target), pytest.raises(NameTaken) as taken, name_lock(target):
        pass
    assert str(taken.value) == (
        f"another run is writing {target}; wait for it or choose another --name"
    )
    with name_lock(target):
        pass


def test_it_is_free_again_after_an_error(tmp_path):
    with pytest.raises(ZeroDivisionError), name_lock(tmp_path / "m.json"):
        _ = 1 / 0
    with name_lock(tmp_path / "m.json"):
        pass


def test_names_and_folders_are_told_apart(tmp_path):
    (tmp_path / "other").mkdir()
    with (
        name_lock(tmp_path / "m.json"),
        name_lock(tmp_path / "n.json"),
        name_lock(tmp_path / "other" / "m.json"),
    ):
        pass


def test_ways_to_name_one_file_are_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other").mkdir()
    (tmp_path / "link").symlink_to(tmp_path)
    with name_lock(tmp_path / "m.json"):
        for other in ("m.json", "other/../m.json", "link/m.json"):
            with pytest.raises(NameTaken), name_lock(tmp_path / other):
                pass


def test_a_killed_holder_holds_nothing(tmp_path):
    target = tmp_path / "m.json"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(target)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(NameTaken), name_lock(target):
            pass
    finally:
        holder.kill()
        holder.communicate()
    with name_lock(target):
        pass
    assert list(tmp_path.iterdir()) == []
