"""Programs that save, call and remember in unusual ways: no false alarm on the right ones, and the
wrong ones are caught, with exceptions in this process and with killed ones alike.
"""

from concurrent.futures import ThreadPoolExecutor

import pytest

from crashpoint.receivers.dialect import Dialect, Keys
from crashpoint.sweep.api import Job, Options, sweep
from sweep_agents import odd


def name_of(program):
    return program.__name__


def swept(program, **options):
    return sweep(Job(program, name=name_of(program)), Options(**options))


@pytest.fixture
def _no_thread_left():
    yield
    odd.POOL.shutdown()
    odd.POOL = ThreadPoolExecutor(1)


@pytest.mark.usefixtures("_no_thread_left")
@pytest.mark.parametrize("mode", ["raise", "fork"])
@pytest.mark.parametrize("program", odd.RIGHT, ids=name_of)
def test_a_right_program_passes(program, mode):
    report = swept(program, mode=mode, depth=2 if mode == "raise" else 1)
    report.assert_exactly_once()
    assert len(report.points) > 3 * len(odd.CALLS)


@pytest.mark.parametrize("mode", ["raise", "fork"])
@pytest.mark.parametrize(
    ("program", "outcome"), odd.WRONG, ids=lambda value: getattr(value, "__name__", value)
)
def test_a_wrong_program_is_caught(program, outcome, mode):
    worst = swept(program, mode=mode, depth=1).worst
    assert worst is not None
    assert worst.verdict.outcome == outcome


@pytest.mark.parametrize("mode", ["raise", "fork"])
def test_a_look_up_that_shows_late_needs_patience(mode):
    receivers = {"tracker": Dialect("shows late", Keys.NONE, visible_within_s=0.1)}
    options = {"mode": mode, "depth": 1, "receivers": receivers}
    swept(odd.looks_up_until_it_is_sure, **options).assert_exactly_once()
    worst = swept(odd.takes_nothing_found_for_an_answer, **options).worst
    assert worst is not None
    assert worst.verdict.outcome == "DUPLICATED"


@pytest.mark.parametrize("program", odd.ONLY_FORKED, ids=name_of)
def test_a_right_program_with_processes_of_its_own_passes(program):
    swept(program, mode="fork", depth=1).assert_exactly_once()


@pytest.mark.parametrize("mode", ["raise", "fork"])
def test_what_a_program_does_at_its_exit_belongs_to_its_run(mode):
    report = swept(odd.tells_at_exit, mode=mode, depth=1)
    assert "file(title='it has ended')" in report.clean.crossings


def test_what_a_program_does_to_this_process_is_undone():
    before = dict(odd.CACHE), set(odd.SEEN), list(odd.log.handlers)
    swept(odd.cached_state, depth=1)
    swept(odd.state_in_memory, depth=1)
    swept(odd.log_file, depth=1)
    assert (odd.CACHE, odd.SEEN, odd.log.handlers) == before
