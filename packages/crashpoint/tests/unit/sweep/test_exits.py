"""What a program registers with atexit runs at the end of its run; the rest is left to Python."""

import atexit
import shutil

import pytest

from crashpoint.inside import points
from crashpoint.inside.points import Crash
from crashpoint.sweep.exits import exits


class Listener:
    def reached(self, name):
        pass

    def allow(self):
        pass


@pytest.fixture
def taken():
    before = points.listen(Listener())
    with exits() as taken:
        yield taken
    points.listen(before)


def test_it_runs_at_the_end_last_in_first_out(taken):
    said = []
    with taken.run_at_the_end():
        atexit.register(said.append, "first")  # a method of a list is nobody's own
        atexit.unregister(said.append)
        atexit.register(lambda: said.append("first"))

        @atexit.register
        def second():
            said.append("second")

        assert said == []
    assert said == ["second", "first"]
    with taken.run_at_the_end():
        pass
    assert said == ["second", "first"]


@pytest.mark.parametrize(("error", "runs"), [(ValueError, 1), (SystemExit, 1), (Crash, 0)])
def test_only_a_dead_process_does_not_run_it(taken, error, runs):
    said = []

    def run():
        atexit.register(lambda: said.append("bye"))
        raise error

    with pytest.raises(error), taken.run_at_the_end():
        run()
    assert len(said) == runs


def test_it_can_be_taken_back(taken):
    said = []

    def bye():
        said.append("bye")

    with taken.run_at_the_end():
        atexit.register(bye)
        atexit.unregister(bye)
    assert said == []


def test_what_is_no_program_s_own_or_comes_from_outside_a_run_is_left_to_python(taken):
    def bye():
        pass

    with taken.run_at_the_end():
        atexit.register(shutil.rmtree, "nowhere", ignore_errors=True)
        assert taken._waiting == []
        atexit.unregister(shutil.rmtree)
        points.listen(None)
        atexit.register(bye)
        assert taken._waiting == []
        atexit.unregister(bye)
