"""The SQLite file: locked, synced, whole after a kill, a power cut and a disk that fails."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import hashlib
import os
import random
import select
import shutil
import subprocess
import sys
import time
import traceback
from pathlib import Path

import apsw
import pytest

from faulty_disk import Disk
from outlive.server.committer import Committer
from outlive.store import sqlite
from outlive.store.api import Commit, Item, Record, StoreBusy, StoreFault
from outlive.store.open import open_store
from outlive.store.sqlite import MIGRATIONS, Migration, SqliteStore
from store_batches import apply, whole

TESTS = Path(__file__).parents[1]
WRITER = [sys.executable, "-u", str(TESTS / "store_batches.py")]
DEADLINE_S = 30


@pytest.fixture
def path(tmp_path):
    return tmp_path / "outlive.db"


@pytest.fixture
def run():
    with asyncio.Runner() as runner:
        yield runner.run


@pytest.fixture
def disk():
    disk = Disk()
    yield disk
    disk.unregister()


@pytest.fixture
def small_log(monkeypatch):
    """The log is moved into the file often."""
    monkeypatch.setattr(sqlite, "CHECKPOINT_PAGES", 12)


def written(run, path: Path, batches: int = 3, **options) -> None:
    """A file with so many batches in it."""
    store = SqliteStore(path, **options)
    run(store.open())
    for n in range(batches):
        run(apply(store, n))
    run(store.close())


def reopened(run, path: Path) -> int:
    """How many batches are in the file, all of them whole."""
    store = SqliteStore(path)
    run(store.open())
    try:
        assert store._connection.pragma("integrity_check") == "ok"
        return run(whole(store))
    finally:
        run(store.close())


def refused(run, path: Path, kind: type[StoreFault] = StoreFault) -> str:
    """The one line with which opening the file is refused."""
    store = SqliteStore(path)
    with pytest.raises(kind) as caught:
        run(store.open())
    run(store.close())
    line = str(caught.value)
    assert "\n" not in line
    assert str(path) in line
    return line


class Child:
    """A process and the lines that it prints."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._rest = b""

    def line(self, timeout_s: float = DEADLINE_S) -> str | None:
        """The next line; None if there is none in time, or no more."""
        until = time.monotonic() + timeout_s
        while b"\n" not in self._rest:
            left = max(0.0, until - time.monotonic())
            if not select.select([self.process.stdout], [], [], left)[0]:
                return None
            got = os.read(self.process.stdout.fileno(), 65536)
            if not got:
                return None
            self._rest += got
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()

    def kill(self) -> list[str]:
        """SIGKILL; what it had printed and was not read yet."""
        self.process.kill()
        self.process.wait()
        said = self._rest + self.process.stdout.read()
        self.end()
        return [line.decode() for line in said.split(b"\n")[:-1]]

    def end(self) -> None:
        """Let it end."""
        self.process.stdin.close()
        self.process.wait(DEADLINE_S)
        self.process.stdout.close()


# --- how the file is opened ---------------------------------------------------------------------


def test_the_log_and_its_sync_are_really_set(run, path):
    store = SqliteStore(path)
    run(store.open())
    ask = store._connection.pragma
    assert (ask("journal_mode"), ask("synchronous"), ask("locking_mode")) == ("wal", 2, "exclusive")
    run(apply(store, 0))
    assert sorted(file.name for file in path.parent.iterdir()) == ["outlive.db", "outlive.db-wal"]
    run(store.close())
    assert path.read_bytes()[18:20] == b"\2\2"  # the file format's mark of a write-ahead log


def test_nothing_is_left_beside_the_file_after_closing(run, path):
    written(run, path)
    assert [file.name for file in path.parent.iterdir()] == ["outlive.db"]


def test_each_group_is_synced_once_before_it_is_answered(run, path, disk):
    store = SqliteStore(path, vfs=disk.name)
    run(store.open())
    run(apply(store, 0))
    for n in range(1, 20):
        before = disk.syncs
        run(apply(store, n))
        assert disk.syncs == before + 1
    before = disk.syncs
    assert run(store.apply([Commit(), Commit()])) == [True, True]
    assert disk.syncs == before  # there was nothing to wait for
    run(store.close())


@pytest.mark.usefixtures("small_log")
def test_a_power_cut_takes_nothing_that_was_answered(run, path, disk, tmp_path):
    store = SqliteStore(path, vfs=disk.name)
    run(store.open())
    for n in range(25):
        run(apply(store, n))
        after = tmp_path / f"after-{n}"
        after.mkdir()
        disk.power_cut(after)
        assert reopened(run, after / path.name) == n + 1
    run(store.close())


def test_a_name_that_sqlite_takes_for_something_else_is_a_file(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in (":memory:", "file:x?mode=memory", "ü b"):
        store = open_store(f"sqlite:///{name}")
        run(store.open())
        run(apply(store, 0))
        run(store.close())
        assert reopened(run, Path(name)) == 1
    assert len(list(tmp_path.iterdir())) == 3


# --- one engine a file --------------------------------------------------------------------------


def test_a_second_engine_on_the_file_is_refused_until_the_first_is_gone(run, path):
    child = Child([*WRITER, str(path)])
    assert (child.line(), child.line()) == ("opening", "at 0")
    line = refused(run, path, StoreBusy)
    assert "one file has one engine" in line
    child.kill()
    assert reopened(run, path) > 0


def test_a_second_process_is_refused_and_disturbs_nothing(run, path):
    store = SqliteStore(path)
    run(store.open())
    run(apply(store, 0))
    child = Child([*WRITER, str(path)])
    assert child.line() == "opening"
    assert child.line().startswith(f"StoreBusy {path} is open in another process")
    child.end()
    refused(run, path, StoreBusy)  # nor in this process
    run(apply(store, 1))
    run(store.close())
    assert reopened(run, path) == 2


@pytest.mark.parametrize("round_", range(6))
def test_of_engines_that_start_in_one_moment_one_is_let_in(run, path, round_):
    if round_ % 2:
        written(run, path)
    children = [Child([*WRITER, str(path), "wait"]) for _ in range(5)]
    for child in children:
        assert child.line() == "ready"
    for child in children:
        child.process.stdin.write(b"\n")
        child.process.stdin.flush()
    said = []
    for child in children:
        assert child.line() == "opening"
        said.append(child.line())
    refusals = [line for line in said if line.startswith("StoreBusy")]
    for child in children:
        child.kill()
    assert len(refusals) == 4
    assert reopened(run, path) > 0


# --- killed -------------------------------------------------------------------------------------


def test_a_process_killed_at_any_moment_loses_no_batch_that_was_acknowledged(run, path):
    chance = random.Random(13)
    acknowledged = 0
    more = 0
    for round_ in range(30):
        child = Child([*WRITER, str(path)])
        assert child.line() == "opening"
        if round_ % 3 == 2:
            child.line(chance.uniform(0, 0.01))  # perhaps while it opens
        else:
            at = int(child.line().removeprefix("at "))
            assert acknowledged <= at <= acknowledged + 1
            more += at - acknowledged
            acknowledged = at
            until = time.monotonic() + chance.uniform(0, 0.03)
            while (left := until - time.monotonic()) > 0:
                if (line := child.line(left)) is not None:
                    acknowledged = int(line) + 1
        for line in child.kill():
            if line.isdecimal():
                acknowledged = int(line) + 1
    assert reopened(run, path) in {acknowledged, acknowledged + 1}
    assert acknowledged > 100
    assert [file.name for file in path.parent.iterdir()] == ["outlive.db"]


# --- a disk that fails --------------------------------------------------------------------------

ERRORS = {
    "full": apsw.FullError,
    "read-only": apsw.ReadOnlyError,
    "broken": apsw.IOError,
}


@pytest.mark.usefixtures("small_log")
@pytest.mark.parametrize("once", [True, False], ids=["once", "from then on"])
@pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS)
def test_wherever_the_disk_fails_what_was_answered_is_there_and_no_half_of_the_rest(
    run, tmp_path, disk, error, once
):
    for after in range(0, 10_000, 3):
        folder = tmp_path / str(after)
        folder.mkdir()
        path = folder / "outlive.db"
        store = SqliteStore(path, vfs=disk.name)
        run(store.open())
        run(apply(store, 0))
        disk.arm(after, error, once=once)
        answered, failed = 1, False
        while answered < 8 and not failed:
            try:
                run(apply(store, answered))
                answered += 1
            except StoreFault:
                failed = True
                with pytest.raises(StoreFault, match="not open"):
                    run(apply(store, answered))
        run(store.close())
        disk.disarm()
        there = reopened(run, path)
        assert there == answered or (failed and there == answered + 1)
        shutil.rmtree(folder)
        if not disk.fired:
            break
    assert after > 20


@pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS)
def test_a_disk_that_fails_while_the_file_is_opened(run, path, disk, error):
    written(run, path)
    shutil.copy(path, whole_file := path.with_name("whole"))
    for after in range(100):
        shutil.copy(whole_file, path)
        store = SqliteStore(path, vfs=disk.name)
        disk.arm(after, error, once=False)
        with contextlib.suppress(StoreFault):
            run(store.open())
            run(apply(store, 3))
        run(store.close())
        disk.disarm()
        assert reopened(run, path) in {3, 4}
        if not disk.fired:
            break
    assert after > 3


def test_what_a_sync_that_failed_left_in_the_log_is_not_built_on(run, path, disk, tmp_path):
    for after in range(1000):
        path.unlink(missing_ok=True)
        store = SqliteStore(path, vfs=disk.name)
        run(store.open())
        run(apply(store, 0))
        disk.arm(after, apsw.IOError, once=False)  # closing it does not succeed either
        n = 1
        with contextlib.suppress(StoreFault):
            while n < 4:
                run(apply(store, n))
                n += 1
        run(store.close())
        disk.disarm()
        run(store.open())
        n = run(whole(store))
        run(apply(store, n))
        cut = tmp_path / f"cut-{after}"
        cut.mkdir()
        disk.power_cut(cut)
        run(store.close())
        assert reopened(run, cut / path.name) == n + 1
        if not disk.fired:
            break
    assert after > 20


def test_a_commit_of_many_rows_needs_no_room_in_the_folder_for_temporary_files(run, path, disk):
    store = SqliteStore(path, vfs=disk.name)
    run(store.open())
    records = tuple(Record("run", str(n), 1, b"x" * 1000) for n in range(2000))
    items = tuple(Item(1, n, b"x" * 1000) for n in range(2000))
    run(store.apply([Commit(put=records, append=items)]))
    more = tuple(record._replace(version=2) for record in records)
    items = tuple(Item(1, n, b"x") for n in (5000, 1))
    assert run(store.apply([Commit(put=more, append=items)])) == [False]
    assert disk.temporary == 0
    run(store.close())


def test_the_fault_says_what_to_do(run, path, disk):
    said = {}
    for name, error in ERRORS.items():
        store = SqliteStore(path, vfs=disk.name)
        run(store.open())
        disk.arm(0, error, once=True)
        with pytest.raises(StoreFault) as caught:
            run(store.apply([Commit(put=(Record("a", "b", 1, b""),))]))
        said[name] = str(caught.value)
        run(store.close())
    assert "make room on its disk" in said["full"]
    assert "let this user write" in said["read-only"]
    assert "see to its disk" in said["broken"]


@pytest.mark.parametrize("after", range(4))
def test_of_a_group_that_failed_nobody_is_told_that_it_was_made(run, path, disk, after):
    store = SqliteStore(path, vfs=disk.name)
    told: list[object] = []

    async def write() -> None:
        await store.open()
        committer = Committer(store, told.append)
        # From the loop's point of view all of this is one group, and the next one waits behind it.
        for n in range(3):
            commit = Commit(put=(Record("run", str(n), 1, b"x" * 3000),))
            committer.give(commit, told.append, lambda: told.append("dropped"))
        disk.arm(after, apsw.IOError, once=True)
        async with asyncio.timeout(DEADLINE_S):
            while not committer.idle:
                await asyncio.sleep(0)
        await store.close()

    run(write())
    assert told[:3] == ["dropped"] * 3
    assert isinstance(told[3], StoreFault)
    assert len(told) == 4


def test_a_caller_that_goes_away_during_a_commit_leaves_a_store_that_can_be_opened(run, path):
    store = SqliteStore(path)

    async def cancelled() -> None:
        await store.open()
        await apply(store, 0)
        task = asyncio.ensure_future(apply(store, 1))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(StoreFault, match="not open"):
            await store.next_due()
        await store.open()
        assert await whole(store) in {1, 2}
        await store.close()

    run(cancelled())


@pytest.mark.parametrize(
    "record",
    [
        Record("run", "\ud800", 1, b""),
        Record("run", "a", 1 << 64, b""),
        Record("run", "a", 1, "text"),
        Record("run", "a", 1, b"", due_ms="soon"),
        Record("run", None, 1, b""),
    ],
    ids=["half a surrogate pair", "beyond 64 bits", "no bytes", "no number", "no key"],
)
def test_what_cannot_be_stored_is_a_fault_and_leaves_nothing(run, path, record):
    written(run, path)
    store = SqliteStore(path)
    run(store.open())
    good = Commit(put=(Record("spoilt", "x", 1, b""),))
    with pytest.raises(StoreFault):
        run(store.apply([good, Commit(put=(record,))]))
    run(store.close())
    assert reopened(run, path) == 3


# --- a disk that is really full, a file that really cannot be written ---------------------------

FULL = """
import asyncio, os, subprocess, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from store_batches import apply, whole
from outlive.store.api import StoreFault
from outlive.store.sqlite import SqliteStore

folder = Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], check=True)

async def main():
    store = SqliteStore(folder / "outlive.db")
    await store.open()
    n = 0
    try:
        while n < 1000:
            await apply(store, n)
            n += 1
    except StoreFault as fault:
        print(fault)
    await store.close()
    subprocess.run(["mount", "-o", "remount,size=64m", folder], check=True)
    await store.open()
    there = await whole(store)
    print(n, there)
    await apply(store, there)
    await store.close()
    print(*os.listdir(folder))

asyncio.run(main())
"""


def own_mounts() -> list[str]:
    """What starts a program that may mount; empty if this user cannot have that."""
    for options in (["--mount"], ["--user", "--map-root-user", "--mount"]):
        command = ["unshare", *options]
        probe = [*command, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
        if not subprocess.run(probe, capture_output=True, check=False).returncode:
            return command
    return []


def test_a_disk_that_is_really_full(tmp_path):
    command = own_mounts()
    if not command:
        pytest.skip("this user may not mount a small disk")
    program = FULL.format(tests=str(TESTS))
    done = subprocess.run(
        [*command, sys.executable, "-c", program, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    fault, counts, files = done.stdout.splitlines()
    assert "disk is full: make room" in fault
    answered, there = map(int, counts.split())
    assert answered > 2
    assert there in {answered, answered + 1}
    assert files == "outlive.db"


def without_privileges(call) -> None:
    """Do it in a child that has to obey file permissions, whoever we are."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            if os.geteuid() == 0:
                header = (ctypes.c_uint32 * 2)(0x20080522, 0)
                assert ctypes.CDLL(None).capset(header, (ctypes.c_uint32 * 6)()) == 0
            call()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
@pytest.mark.parametrize(("file", "folder"), [(0o444, 0o755), (0o444, 0o555), (0o644, 0o555)])
def test_a_file_or_a_folder_that_may_not_be_written(run, path, file, folder):
    written(run, path)
    path.chmod(file)
    path.parent.chmod(folder)
    before = path.read_bytes()

    def attempt() -> None:
        with asyncio.Runner() as runner:
            line = refused(runner.run, path)
        assert "let this user write the file and its folder" in line

    try:
        without_privileges(attempt)
    finally:
        path.parent.chmod(0o755)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["outlive.db"]


# --- files that are not ours, or no more ---------------------------------------------------------


def foreign(path: Path, *statements: str) -> None:
    connection = apsw.Connection(str(path))
    for statement in statements:
        connection.execute(statement)
    connection.close()


FOREIGN = {
    "tables": ["CREATE TABLE records (a)", "INSERT INTO records VALUES (1)"],
    "an application": ["PRAGMA application_id = 77"],
    "a version": ["PRAGMA user_version = 1"],
    "a log": ["PRAGMA journal_mode = WAL", "CREATE TABLE t (a)"],
}


@pytest.mark.parametrize("statements", FOREIGN.values(), ids=FOREIGN)
def test_another_programs_database_is_refused_and_stays_as_it_is(run, path, statements):
    foreign(path, *statements)
    before = path.read_bytes()
    line = refused(run, path)
    assert "is another program's database" in line
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["outlive.db"]


def test_another_programs_log_is_not_moved_into_its_file(run, path):
    original = path.with_name("original")
    connection = apsw.Connection(str(original))
    connection.pragma("journal_mode", "WAL")
    connection.execute("CREATE TABLE t (a)")
    for suffix in ("", "-wal"):
        shutil.copy(f"{original}{suffix}", f"{path}{suffix}")
    before = [Path(f"{path}{suffix}").read_bytes() for suffix in ("", "-wal")]
    connection.close()
    refused(run, path)
    assert [Path(f"{path}{suffix}").read_bytes() for suffix in ("", "-wal")] == before


def test_a_file_of_a_newer_version_is_refused_and_stays_as_it_is(run, path, monkeypatch):
    with monkeypatch.context() as newer:
        newer.setattr(sqlite, "MIGRATIONS", (*MIGRATIONS, Migration("more", "CREATE TABLE m (a)")))
        written(run, path)
    before = path.read_bytes()
    line = refused(run, path)
    assert f"version {len(MIGRATIONS) + 1}" in line
    assert f"up to {len(MIGRATIONS)}" in line
    assert path.read_bytes() == before


def test_what_is_no_file_or_no_database_is_refused_with_the_remedy(run, tmp_path):
    text = tmp_path / "text"
    text.write_text("dear diary\n" * 500)
    assert "none of outlive's, or damaged" in refused(run, text)
    assert text.read_text() == "dear diary\n" * 500
    assert "name a file" in refused(run, tmp_path)
    assert "in a folder that is there" in refused(run, tmp_path / "missing" / "outlive.db")
    assert list(tmp_path.iterdir()) == [text]


@pytest.mark.parametrize(
    "address", ["", "sqlite:", "sqlite:///", "postgres://x", "outlive.db", "memory", "memory:x"]
)
def test_an_address_that_names_no_store_is_refused(address):
    with pytest.raises(StoreFault, match="is no store: write sqlite:///PATH"):
        open_store(address)


def test_an_address_in_a_missing_folder_is_refused(tmp_path):
    with pytest.raises(StoreFault, match=r"there is no folder .*/missing; make it first"):
        open_store(f"sqlite:///{tmp_path}/missing/outlive.db")


@pytest.mark.parametrize("damage", ["cut", "page", "header"])
def test_a_damaged_file_is_a_fault_and_never_an_answer(run, path, damage):
    written(run, path, 12)
    content = bytearray(path.read_bytes())
    if damage == "cut":
        del content[len(content) // 2 :]
    elif damage == "page":
        content[4096 * 5 :] = b"\xa5" * (len(content) - 4096 * 5)
    else:
        content[40:100] = b"\xff" * 60
    path.write_bytes(content)
    store = SqliteStore(path)
    with pytest.raises(StoreFault) as caught:  # noqa: PT012  opening may go well, reading may not
        run(store.open())
        run(whole(store))
    run(store.close())
    assert "\n" not in str(caught.value)
    assert "damaged" in str(caught.value) or "another program" in str(caught.value)


# --- versions of the file ------------------------------------------------------------------------


@pytest.mark.parametrize("made", ["missing", "without a byte", "without a table"])
def test_a_file_of_version_0_is_brought_to_the_present_one(run, path, made):
    if made == "without a byte":
        path.touch()
    elif made == "without a table":
        foreign(path, "CREATE TABLE t (a)", "DROP TABLE t")
    written(run, path)
    assert reopened(run, path) == 3
    connection = apsw.Connection(str(path))
    assert connection.pragma("user_version") == len(MIGRATIONS)
    assert connection.pragma("application_id") == int.from_bytes(b"outl")
    connection.close()


def test_an_older_file_keeps_what_is_in_it(run, path, monkeypatch):
    written(run, path)
    more = (
        Migration("colour", "ALTER TABLE records ADD COLUMN colour TEXT NOT NULL DEFAULT 'red'"),
        Migration("shape", "CREATE TABLE shapes (a); INSERT INTO shapes VALUES (1);"),
    )
    monkeypatch.setattr(sqlite, "MIGRATIONS", (*MIGRATIONS, *more))
    assert reopened(run, path) == 3
    connection = apsw.Connection(str(path))
    assert connection.pragma("user_version") == len(MIGRATIONS) + 2
    assert list(connection.execute("SELECT colour FROM records LIMIT 1")) == [("red",)]
    assert list(connection.execute("SELECT * FROM shapes")) == [(1,)]
    connection.close()


def test_a_migration_that_fails_leaves_the_file_at_its_version(run, path, monkeypatch):
    written(run, path)
    before = path.read_bytes()
    more = (
        Migration("colour", "ALTER TABLE records ADD COLUMN colour TEXT"),
        Migration("twice", "CREATE TABLE records (a)"),
    )
    with monkeypatch.context() as newer:
        newer.setattr(sqlite, "MIGRATIONS", (*MIGRATIONS, *more))
        line = refused(run, path)
    assert "from version 1 to 3" in line
    assert "twice: table records already exists" in line
    assert path.read_bytes() == before
    assert reopened(run, path) == 3


def test_a_migration_that_the_disk_breaks_off_happened_or_did_not(run, path, disk, monkeypatch):
    written(run, path)
    before = path.read_bytes()
    step = Migration("copy", "CREATE TABLE copies AS SELECT * FROM entries")
    for after in range(1000):
        path.write_bytes(before)
        with monkeypatch.context() as newer:
            newer.setattr(sqlite, "MIGRATIONS", (*MIGRATIONS, step))
            store = SqliteStore(path, vfs=disk.name)
            disk.arm(after, apsw.FullError, once=False)
            with contextlib.suppress(StoreFault):
                run(store.open())
            run(store.close())
            disk.disarm()
        connection = apsw.Connection(str(path))
        version = connection.pragma("user_version")
        (tables,) = next(
            connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'copies'")
        )
        connection.close()
        assert (version, tables) in {(1, 0), (2, 1)}
        if not disk.fired:
            break
    assert after > 5
    assert version == 2


def test_a_migration_that_was_published_is_never_changed():
    digests = [hashlib.sha256(one.sql.encode()).hexdigest()[:16] for one in MIGRATIONS]
    assert dict(zip([one.name for one in MIGRATIONS], digests, strict=True)) == {
        "records and entries": "5ff70f61f94f076a"
    }
