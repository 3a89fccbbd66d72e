import os
import shutil
import signal
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pytest

import sweep_jobs
from crashpoint.inside import tree
from crashpoint.pipeline.judge import Ending
from crashpoint.receivers.dialect import KEYED
from crashpoint.sweep import api
from crashpoint.sweep.api import Job, Options, sweep
from crashpoint.sweep.words import SweepFault

GOOD = [
    "careful",
    "prints_megabytes",
    "leaves_daemons",
    "catches_everything",
    "ignores_sigterm",
    "uses_a_thread",
    "leaves_with_success",
    "returns_much",
    "in_tasks",
]
FAULTS = {
    "never_ends": "NO_START: without a crash the program hung",
    "never_ends_and_tells": "NO_START: without a crash the program hung",
    "has_no_point": "the program announces no point",
    "fails_without_a_crash": "NO_START: without a crash the program failed: ValueError: no good",
    "leaves_with_failure": "NO_START: without a crash the program failed: SystemExit: 3",
    "meets_nobody": "NO_START: without a crash the program failed: ReceiverDown: nobody listens",
    "wants_more": "wants_more needs an argument 'model'",
}
ENDINGS = {"cannot_read_its_state": Ending.CRASHLOOP, "hangs_when_resumed": Ending.STUCK}


@pytest.fixture(params=["raise", "fork"])
def mode(request):
    return request.param


@pytest.fixture(autouse=True)
def place(monkeypatch):
    """A folder for everything temporary; at the end it is empty, no process and no handler left."""
    folder = Path(tempfile.mkdtemp(prefix="cp-", dir="/tmp"))  # short: socket paths must fit
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(api, "memory_folder", lambda: str(folder))
    before = set(tree.descendants(os.getpid()))
    where, at_sigterm = Path.cwd(), signal.getsignal(signal.SIGTERM)
    yield folder
    left = set(tree.descendants(os.getpid())) - before
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    files = list(folder.iterdir())
    shutil.rmtree(folder)
    assert not left
    assert not files
    assert Path.cwd() == where
    assert signal.getsignal(signal.SIGTERM) == at_sigterm


def swept(job, mode, *, depth=1, limit_s=0.6, **options):
    how = Options(mode=mode, depth=depth, limit_s=limit_s, receivers={"tracker": KEYED})
    return sweep(Job(job), how, **options)


@pytest.mark.parametrize("name", GOOD)
def test_a_strange_job_that_is_right_has_no_false_alarm(name, mode):
    report = swept(getattr(sweep_jobs, name), mode, limit_s=10.0)
    assert report.failed == 0, report.complaint()
    assert report.scenarios >= 3


@pytest.mark.parametrize("name", FAULTS)
def test_a_job_that_cannot_be_swept_is_one_clear_line(name, mode):
    with pytest.raises(SweepFault) as fault:
        swept(getattr(sweep_jobs, name), mode)
    assert FAULTS[name] in str(fault.value)
    assert "\n" not in str(fault.value)


@pytest.mark.parametrize("name", ENDINGS)
def test_a_restart_that_does_not_end_well_is_never_a_pass(name, mode):
    report = swept(getattr(sweep_jobs, name), mode)
    assert report.failed == report.outcomes["?"] == 4  # crashes from the save's rename on
    assert {scenario.verdict.ending for scenario in report.failures} == {ENDINGS[name]}
    assert str(ENDINGS[name]) in report.complaint()


def test_a_job_that_wanders_from_the_start_is_not_swept(mode, tmp_path):
    counter = tmp_path / "counter"
    counter.write_text("0")
    with pytest.raises(SweepFault, match=r"point 1 was drawn-1 and is now drawn-2"):
        swept(sweep_jobs.Drawing(counter), mode)


def test_a_restart_that_wanders_is_void_with_the_first_difference(mode, tmp_path):
    counter = tmp_path / "counter"
    counter.write_text("0")
    report = swept(sweep_jobs.Drawing(counter, after=True), mode, depth=2)
    assert report.outcomes["?"] > 0
    assert report.failed == report.outcomes["?"]
    assert "not deterministic: point 1 was drawn-" in report.complaint()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"mode": "explode"}, "no mode 'explode'; there are raise, fork, spawn"),
        ({"depth": 0}, "depth must be a whole number from 1, not 0"),
        ({"depth": "2"}, "depth must be a whole number from 1, not '2'"),
        ({"limit_s": 0}, "limit_s must be seconds above 0, not 0"),
        ({"limit_s": float("nan")}, "limit_s must be seconds above 0, not nan"),
        ({"receivers": {"mail": None}}, "no receiver 'mail'; there are tracker, payments"),
        ({"mode": "spawn"}, "is a function: sweep it with mode raise or fork"),
    ],
)
def test_options_that_mean_nothing_are_refused(options, says):
    with pytest.raises(SweepFault) as fault:
        sweep(Job(sweep_jobs.careful), Options(**options))
    assert says in str(fault.value)


@pytest.mark.parametrize("start", [None, 3, "true", ["true"], [1, 2]])
def test_what_is_no_function_is_refused(start, mode):
    with pytest.raises(SweepFault, match=r"is a command|neither a function nor a command"):
        sweep(Job(start), Options(mode=mode))


def test_a_receiver_that_dies_is_never_a_pass():
    def end_the_receivers(_scenario, _report):
        for pid in tree.descendants(os.getpid()):
            if b"crashpoint.receivers.server" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)

    with pytest.raises(SweepFault) as fault:
        swept(sweep_jobs.careful, "fork", limit_s=10.0, tell=end_the_receivers)
    assert "\n" not in str(fault.value)


def test_a_job_whose_receiver_was_not_started_does_not_start(mode):
    options = Options(mode=mode, receivers={})
    with pytest.raises(SweepFault, match=r"NO_START: .*ReceiverDown: no tracker here"):
        sweep(Job(sweep_jobs.careful), options)


COMMAND = "import sweep_jobs; from crashpoint.testing import tracker\nsweep_jobs.{}({})"


def command_of(name):
    argument = (
        "" if name in {"has_no_point", "never_ends_and_tells", "meets_nobody"} else "tracker()"
    )
    return [sys.executable, "-c", COMMAND.format(name, argument)]


@pytest.fixture
def jobs_on_path(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(sweep_jobs.__file__).parent))


@pytest.mark.parametrize("name", ["prints_megabytes", "leaves_daemons", "ignores_sigterm"])
def test_a_strange_command_that_is_right_has_no_false_alarm(name, jobs_on_path):
    report = swept(command_of(name), "spawn", limit_s=20.0)
    assert report.failed == 0, report.complaint()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("never_ends", "NO_START: without a crash the program hung: no end within 1.5 s"),
        ("has_no_point", "the program announces no point"),
        ("fails_without_a_crash", "exit status 1 (ValueError: no good)"),
        ("leaves_with_failure", "it left with exit status 3"),
        ("meets_nobody", "ReceiverDown: nobody listens"),
    ],
)
def test_a_command_that_cannot_be_swept_is_one_clear_line(name, says, jobs_on_path):
    with pytest.raises(SweepFault) as fault:
        swept(command_of(name), "spawn", limit_s=1.5)
    assert says in str(fault.value)
    assert "\n" not in str(fault.value)


def test_a_command_that_cannot_read_its_state_is_a_crash_loop(jobs_on_path):
    report = swept(command_of("cannot_read_its_state"), "spawn", limit_s=20.0)
    assert {s.verdict.ending for s in report.failures} == {Ending.CRASHLOOP}
    assert "RuntimeError: what is this state?" in report.complaint()


@pytest.mark.parametrize(
    ("command", "says"),
    [("", "the command is empty"), ("/no/such/program", "cannot start '/no/such/program'")],
)
def test_a_command_that_is_none_is_refused(command, says):
    with pytest.raises(SweepFault, match=says):
        swept(command, "spawn")


def test_somebody_elses_alarm_rings_after_a_sweep():
    rung = []
    before = signal.signal(signal.SIGALRM, lambda *_: rung.append(time.monotonic()))
    begun = time.monotonic()
    # What the runner of this very test may have set is put back at the end.
    left_s, every_s = signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        swept(sweep_jobs.careful, "raise", depth=2)
        signal.sigtimedwait([], 0) if rung else signal.pause()
    finally:
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, left_s, every_s)
    assert rung[0] - begun >= 0.2
