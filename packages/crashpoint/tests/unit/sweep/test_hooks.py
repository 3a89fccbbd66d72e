"""What a program changes below the watched folder is announced, under names that do not wander."""
# ruff: noqa: PTH104, PTH105, PTH106, PTH107, PTH110, PTH123, PTH202, PTH211, SIM115

import os
import shutil
import sqlite3
import tempfile
import uuid
from pathlib import Path

import pytest

from crashpoint.inside import points
from crashpoint.inside.points import Crash
from crashpoint.sweep.hooks import watching
from crashpoint.sweep.words import KINDS, kind_of


class Listener:
    """Notes points; dies at the one asked for, and refuses everything from then on."""

    def __init__(self):
        self.names = []
        self.dies_at = None
        self.is_dead = False

    def reached(self, name):
        self.allow()
        self.names.append(name)
        if name == self.dies_at:
            self.is_dead = True
            raise Crash

    def allow(self):
        if self.is_dead:
            raise Crash


@pytest.fixture
def listener(tmp_path, monkeypatch):
    folder = tmp_path / "state"
    folder.mkdir()
    (folder / "old").write_text("old")
    (folder / "below").mkdir()
    (tmp_path / "elsewhere").write_text("else")
    monkeypatch.chdir(folder)
    listener = Listener()
    with watching(str(folder)) as listener.watch:
        before = points.listen(listener)
        try:
            yield listener
        finally:
            points.listen(before)
    listener.watch.let_go()


def append(path, text, **options):
    with open(path, "a", **options) as file:
        file.write(text)


def by_descriptor(path, flags, text=b"x"):
    descriptor = os.open(path, flags)
    os.write(descriptor, text)
    os.close(descriptor)


def write_bytes():
    with open("new", "wb", buffering=0) as file:
        file.write(b"x")


def truncate_open():
    with open("old", "r+") as file:
        file.truncate(1)


def commit(path="data.db"):
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("create table t (x)")
    connection.close()


CHANGES = {
    "a file written in place": (
        lambda: Path("new").write_text("x"),
        ["truncated:new", "written:new"],
    ),
    "one of three buffers": (
        lambda: Path("new").write_text("x" * 20_000),
        ["truncated:new", "written:new"],
    ),
    "an append": (lambda: append("old", "more"), ["written:old"]),
    "an append by line": (
        lambda: append("old", "one\ntwo\n", buffering=1),
        ["written:old"],
    ),
    "an exclusive one": (lambda: open("new", "x").close(), ["created:new"]),
    "bytes without a buffer": (
        write_bytes,
        ["truncated:new", "written:new"],
    ),
    "a read": (lambda: Path("old").read_text(), []),
    "a write elsewhere": (lambda: Path("../elsewhere").write_text("x"), []),
    "a descriptor of a new file": (
        lambda: by_descriptor("new", os.O_WRONLY | os.O_CREAT),
        ["created:new", "written:new"],
    ),
    "a descriptor of an old file": (
        lambda: by_descriptor("old", os.O_WRONLY | os.O_CREAT),
        ["written:old"],
    ),
    "a descriptor that truncates": (
        lambda: by_descriptor("old", os.O_WRONLY | os.O_TRUNC),
        ["truncated:old", "written:old"],
    ),
    "a descriptor made a file": (
        lambda: os.fdopen(os.open("old", os.O_WRONLY), "w").close(),
        [],
    ),
    "a touch": (lambda: Path("new").touch(), ["created:new"]),
    "a truncation": (lambda: os.truncate("old", 1), ["truncated:old"]),
    "a truncation of an open file": (truncate_open, ["truncated:old"]),
    "a copy": (
        lambda: shutil.copyfile("../elsewhere", "new"),
        ["truncated:new", "written:new"],
    ),
    "a rename": (lambda: os.rename("old", "new"), ["tmp:new", "renamed:new"]),
    "a replacement": (lambda: Path("old").replace("new"), ["tmp:new", "renamed:new"]),
    "a rename to elsewhere": (lambda: os.rename("old", "../gone"), ["removed:old"]),
    "a rename from elsewhere": (
        lambda: os.rename("../elsewhere", "new"),
        ["tmp:new", "renamed:new"],
    ),
    "a removal": (lambda: os.remove("old"), ["removed:old"]),
    "a removal of a path": (lambda: Path("old").unlink(), ["removed:old"]),
    "a removal of a folder": (lambda: os.rmdir("below"), ["removed:below"]),
    "a removal of a tree": (lambda: shutil.rmtree("below"), ["removed:below"]),
    "a folder": (lambda: Path("deep", "er").mkdir(parents=True), ["created:deep", "created:er"]),
    "a symbolic link": (lambda: os.symlink("old", "new"), ["created:new"]),
    "a link": (lambda: os.link("old", "new"), ["created:new"]),
    "a commit": (commit, ["committed:data.db"]),
    "a database in memory": (lambda: commit(":memory:"), []),
}


@pytest.mark.parametrize(("change", "announced"), CHANGES.values(), ids=CHANGES)
def test_a_change_is_announced_when_it_is_done(listener, change, announced):
    change()
    assert list(dict.fromkeys(listener.names)) == announced
    assert {kind_of(name) for name in announced} <= KINDS.keys()


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize(
    ("change", "announced"),
    [c for c in CHANGES.values() if c[1]],
    ids=[n for n, c in CHANGES.items() if c[1]],
)
def test_a_dead_process_changes_nothing(listener, change, announced):
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    elsewhere = sorted(Path("..").iterdir())
    listener.is_dead = True
    with pytest.raises(Crash):
        change()
    listener.watch.let_go()
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before
    assert sorted(Path("..").iterdir()) == elsewhere


def test_a_file_relative_to_a_folder_descriptor_is_known(listener):
    descriptor = os.open("below", os.O_RDONLY)
    os.mkdir("here", dir_fd=descriptor)
    os.rmdir("here", dir_fd=descriptor)
    elsewhere = os.open("..", os.O_RDONLY)
    os.mkdir("there", dir_fd=elsewhere)
    os.close(elsewhere)
    os.close(descriptor)
    assert listener.names == ["created:here", "removed:here"]


def test_each_buffer_that_gets_into_a_file_is_a_point(listener):
    with open("new", "w") as file:
        file.writelines("x" * 5_000 for _ in range(5))
        assert os.path.getsize("new") < 25_000
        assert listener.names.count("written:new") > 1
        file.flush()
    assert os.path.getsize("new") == 25_000
    assert listener.names[-1] == "written:new"


def test_what_a_process_has_not_flushed_dies_with_it(listener):
    file = open("old", "a")
    file.write("lost")
    listener.is_dead = True
    listener.watch.let_go()
    assert file.closed
    assert Path("old").read_text() == "old"


def test_what_a_process_has_open_is_closed_at_its_end(listener):
    file = open("old", "a")
    file.write("er")
    descriptor = os.open("old", os.O_RDONLY)
    connection = sqlite3.connect("data.db")
    connection.execute("create table t (x)")
    connection.execute("begin")
    listener.watch.let_go()
    assert Path("old").read_text() == "older"
    assert file.closed
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("select 1")
    sqlite3.connect("data.db", timeout=0).execute("insert into t values (1)").connection.close()


def test_a_descriptor_that_somebody_else_got_meanwhile_is_left_alone(listener):
    descriptor = os.open("old", os.O_RDONLY)
    os.close(descriptor)
    reader, writer = os.pipe()
    assert descriptor in (reader, writer)
    listener.watch.let_go()
    os.close(reader)
    os.close(writer)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", ["truncated:new", "created:new"])
def test_a_file_that_the_program_never_gets_is_closed(listener, kind):
    listener.dies_at = kind
    mode = {"truncated:new": "w", "created:new": "x"}[kind]
    with pytest.raises(Crash):
        open("new", mode)
    assert os.path.exists("new")


def draw_process_id():
    return f"state.{os.getpid()}.tmp"


def draw_uuid():
    return f".{uuid.uuid4()}"


def draw_hexadecimal():
    return f"state-{uuid.uuid4().hex[:8]}"


@pytest.mark.parametrize("draw", [draw_process_id, draw_uuid, draw_hexadecimal])
def test_drawn_parts_of_a_name_are_left_out_of_the_points(listener, draw):
    for _ in range(20):
        Path(draw()).write_text("")
    assert len(set(listener.names)) == 1


def test_temporary_files_are_called_so(listener):
    for _ in range(20):
        descriptor, _ = tempfile.mkstemp(dir=".", prefix="state-", suffix=".json")
        with os.fdopen(descriptor, "w") as file:
            file.write("x")
        with tempfile.NamedTemporaryFile("w", dir=".", delete=False) as file:
            file.write("x")
        os.replace(file.name, "state.json")
    assert sorted(set(listener.names)) == [
        "created:tmp*",
        "renamed:state.json",
        "tmp:state.json",
        "written:tmp*",
    ]


def test_pipes_and_sockets_are_no_files(listener):
    reader, writer = os.pipe()
    os.write(writer, b"x")
    with os.fdopen(writer, "w") as file:
        file.write("y")
    os.close(reader)
    assert listener.names == []


def test_numbers_with_one_digit_stay(listener):
    Path("turn-7.json").write_text("")
    assert listener.names == ["truncated:turn-7.json"]


def test_nobody_is_told_of_anything_when_nobody_listens(listener):
    points.listen(None)
    for change, _ in CHANGES.values():
        try:
            change()
        except OSError:
            continue  # it was made for a folder in which nothing had happened yet
    assert listener.names == []


def test_the_hooks_are_gone_afterwards(tmp_path):
    before = (open, os.open, os.write, os.replace, os.unlink, sqlite3.connect)
    with watching(str(tmp_path)):
        assert all(
            now is not then
            for now, then in zip(
                (open, os.open, os.write, os.replace, os.unlink, sqlite3.connect),
                before,
                strict=True,
            )
        )
    assert (open, os.open, os.write, os.replace, os.unlink, sqlite3.connect) == before
