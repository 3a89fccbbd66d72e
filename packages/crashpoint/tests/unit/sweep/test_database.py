"""A watched SQLite connection announces what is committed, whoever commits it, and nothing else."""

import sqlite3
from pathlib import Path

import pytest

from crashpoint.inside import points
from crashpoint.inside.points import Crash
from crashpoint.sweep.database import watched


class Listener:
    def __init__(self):
        self.names = []
        self.is_dead = False

    def reached(self, name):
        self.names.append(name)

    def allow(self):
        if self.is_dead:
            raise Crash


@pytest.fixture
def listener():
    listener = Listener()
    before = points.listen(listener)
    yield listener
    points.listen(before)


@pytest.fixture
def path(tmp_path):
    connection = sqlite3.connect(tmp_path / "data.db")
    connection.execute("create table t (x)")
    connection.close()
    return tmp_path / "data.db"


@pytest.fixture
def connect(path):
    opened = []

    def connect(**options):
        connection = sqlite3.connect(path, factory=watched(sqlite3.Connection), **options)
        connection.crashpoint_name = "data.db"
        opened.append(connection)
        return connection

    yield connect
    for connection in opened:
        sqlite3.Connection.close(connection)


INSERT = "insert into t values (1)"


def with_block(connection):
    with connection:
        connection.execute(INSERT)


def by_method(connection):
    connection.execute(INSERT)
    connection.commit()


def by_cursor(connection):
    cursor = connection.cursor()
    cursor.executemany("insert into t values (?)", [(1,), (2,)])
    connection.commit()


def by_script(connection):
    connection.executescript("begin; insert into t values (1); commit")


def by_statement(connection):
    connection.isolation_level = None
    connection.execute("begin")
    connection.execute(INSERT)
    connection.execute("commit")


def by_itself(connection):
    connection.isolation_level = None
    connection.execute(INSERT)


def defining(connection):
    connection.execute("create table u (y)")


@pytest.mark.parametrize(
    "commit",
    [with_block, by_method, by_cursor, by_script, by_statement, by_itself, defining],
)
def test_a_commit_is_announced_once_when_others_can_see_it(listener, connect, path, commit):
    commit(connect())
    assert listener.names == ["committed:data.db"]
    rows = sqlite3.connect(path).execute("select count(*) from t, sqlite_master").fetchone()
    assert rows[0] > 0 or commit is defining


def test_what_is_not_committed_is_not_announced(listener, connect):
    connection = connect()
    connection.execute("select * from t")
    connection.execute(INSERT)
    connection.rollback()
    connection.commit()  # of nothing
    with pytest.raises(sqlite3.OperationalError), connection:
        connection.executescript("begin; insert into t values (1); insert into nothing values (1)")
    connection.execute(INSERT)
    connection.close()
    assert listener.names == []


@pytest.mark.parametrize("commit", [with_block, by_method, by_itself, defining])
def test_a_dead_process_commits_nothing(listener, connect, path, commit):
    connection = connect()
    listener.is_dead = True
    with pytest.raises(Crash):
        commit(connection)
    listener.is_dead = False
    sqlite3.Connection.close(connection)
    others = sqlite3.connect(path)
    assert others.execute("select count(*) from t").fetchone() == (0,)
    others.close()


def test_a_factory_of_the_program_is_kept(listener, path):
    class Own(sqlite3.Connection):
        def hello(self):
            return "hello"

    connection = sqlite3.connect(path, factory=watched(Own))
    assert connection.hello() == "hello"
    with_block(connection)
    assert listener.names == ["committed"]
    connection.close()


def test_a_cursor_class_of_the_program_is_kept(listener, connect):
    class Own(sqlite3.Cursor):
        def hello(self):
            return "hello"

    cursor = connect().cursor(Own)
    assert cursor.hello() == "hello"
    assert cursor.execute("select 1").fetchone() == (1,)


def test_closing_lets_go_of_the_files_though_a_cursor_lives(listener, connect, path):
    connection = connect()
    by_cursor(connection)
    cursor = connection.execute("select * from t")
    assert cursor.fetchone() == (1,)  # and there are more
    connection.close()
    links = [link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    assert path not in links
    assert cursor is not None
