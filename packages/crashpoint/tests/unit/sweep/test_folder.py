"""The files of a world are put back as they were, under whatever is still open."""

from pathlib import Path

from crashpoint.receivers.dialect import KEYED
from crashpoint.sweep.folder import FolderCrasher, Mount, files_below


def nothing(_world):
    """A job."""


def crasher_in(folder):
    return FolderCrasher(Mount.make(folder, {"tracker": KEYED}), start=nothing, resume=nothing)


def fill(folder):
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "empty").mkdir()
    (folder / "state.json").write_bytes(b"\0\xff")
    (folder / "deep" / "er" / "file").write_text("x" * 100_000)
    (folder / "current").symlink_to("state.json")
    (folder / "dangling").symlink_to("nowhere")


def test_folders_files_and_links_come_back(tmp_path):
    with crasher_in(tmp_path) as crasher:
        world = crasher.fresh()
        fill(tmp_path)
        before = files_below(tmp_path)
        kept = crasher.snapshot(world)
        key = crasher.key(world)
        crasher.fresh()
        assert files_below(tmp_path) == {}
        (tmp_path / "state.json").mkdir()
        (tmp_path / "other").write_text("other")
        (tmp_path / "current").write_text("no link")
        world = crasher.restore(kept)
        assert files_below(tmp_path) == before
        assert crasher.key(world) == key
        assert (tmp_path / "current").readlink() == Path("state.json")
        assert (tmp_path / "current").read_bytes() == b"\0\xff"


def test_worlds_that_differ_in_a_link_or_an_empty_folder_differ(tmp_path):
    with crasher_in(tmp_path) as crasher:
        world = crasher.fresh()
        fill(tmp_path)
        key = crasher.key(world)
        (tmp_path / "dangling").unlink()
        (tmp_path / "dangling").symlink_to("elsewhere")
        other = crasher.key(world)
        (tmp_path / "empty").rmdir()
        assert len({key, other, crasher.key(world)}) == 3


def test_what_somebody_still_has_open_is_not_changed(tmp_path):
    with crasher_in(tmp_path) as crasher:
        world = crasher.fresh()
        fill(tmp_path)
        kept = crasher.snapshot(world)
        with (tmp_path / "state.json").open("r+b") as stale:
            crasher.restore(kept)
            assert (tmp_path / "state.json").stat().st_ino != Path(
                f"/proc/self/fd/{stale.fileno()}"
            ).stat().st_ino
            stale.write(b"late")
        assert (tmp_path / "state.json").read_bytes() == b"\0\xff"


def test_each_run_begins_in_the_folder(tmp_path, monkeypatch):
    seen = []

    def job(_world):
        seen.append(Path.cwd())
        Path("below").mkdir(exist_ok=True)
        monkeypatch.chdir("below")

    mount = Mount.make(tmp_path, {"tracker": KEYED})
    with FolderCrasher(mount, start=job, resume=job, memory_of=(nothing,)) as crasher:
        world = crasher.fresh()
        for _ in range(2):
            crasher.run(world, resume=False, at=0)
    assert seen == [tmp_path, tmp_path]
