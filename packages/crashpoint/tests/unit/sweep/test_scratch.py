import os
import subprocess
import sys

from crashpoint.sweep.scratch import clear, scratch_folder


def test_a_folder_is_there_and_then_is_not(tmp_path):
    with scratch_folder(str(tmp_path)) as folder:
        (folder / "state").mkdir()
        assert folder.parent == tmp_path
    assert not list(tmp_path.iterdir())


def test_what_a_killed_process_left_the_next_one_removes(tmp_path):
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    left = tmp_path / f"crashpoint-{done.pid}-abcdefgh"
    alive = tmp_path / f"crashpoint-{os.getppid()}-abcdefgh"
    other = tmp_path / "crashpoint-of-somebody"
    fresh = tmp_path / f"crashpoint-{done.pid}-ijklmnop"
    for folder in (left, alive, other, fresh):
        (folder / "state").mkdir(parents=True)
        os.utime(folder, (0, 0))
    os.utime(fresh)
    with scratch_folder(str(tmp_path)):
        assert not left.exists()
        assert alive.exists()
        assert other.exists()
        assert fresh.exists()


def test_a_process_that_gives_up_removes_its_own(tmp_path):
    with scratch_folder(str(tmp_path)) as folder:
        clear()
        assert not folder.exists()
