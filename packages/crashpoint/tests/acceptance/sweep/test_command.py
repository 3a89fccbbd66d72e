import json
import re
import shlex
import signal
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import sweep_jobs
from acceptance.sweep.terminal import Terminal
from leftovers import nothing_left

CRASHPOINT = str(Path(sys.executable).with_name("crashpoint"))
JOBS = Path(sweep_jobs.__file__)


@pytest.fixture
def place():
    with nothing_left() as place:
        (place.out.parent / "jobs.py").write_text(JOBS.read_text())
        yield place


def run(place, *arguments, program="sweep"):
    done = place.run(program, *arguments, program=CRASHPOINT)
    assert "Traceback" not in done.stdout + done.stderr
    return done


def swept(place, start, *options):
    return run(place, "run", "--start", start, "--out", str(place.out), *options)


def test_a_careful_program_is_exit_status_0_with_evidence_that_verifies(place):
    done = swept(place, "jobs.py:careful")
    assert done.returncode == 0
    assert "all exactly once" in done.stdout
    assert sorted(path.name for path in place.out.iterdir()) == ["careful.html", "careful.json"]
    checked = run(place, str(place.out / "careful.json"), program="verify")
    assert checked.stdout.startswith("ok ")


def test_a_careless_one_is_exit_status_1_with_everything_to_look_into_it(place):
    done = swept(place, "jobs.py:careless", "--junit", "o/junit.xml", "--github", "--name", "mine")
    assert done.returncode == 1
    assert "jobs.py:" in done.stdout
    names = {path.name for path in place.out.iterdir()}
    assert names == {"mine.html", "mine.json", "mine.repro.py", "junit.xml"}
    assert int(ET.parse(place.out / "junit.xml").find("testsuite").get("failures")) > 0
    annotations = re.findall(r"^::error file=jobs\.py,line=\d+,", done.stdout, re.MULTILINE)
    assert annotations
    (again,) = re.findall(r"^Again: (.+)$", done.stdout, re.MULTILINE)
    program, *arguments = shlex.split(again)
    assert program == "crashpoint"
    alone = run(place, *arguments[1:])
    assert alone.returncode == 1
    assert "DUPLICATED, 1 too many" in alone.stdout.splitlines()[0]
    repeated = place.run(str(place.out / "mine.repro.py"))
    assert repeated.stdout == alone.stdout
    assert repeated.returncode == 1


def test_a_repro_file_says_when_the_fault_is_mended_or_the_program_another_one(place):
    swept(place, "jobs.py:careless")
    jobs = place.out.parent / "jobs.py"
    before = jobs.read_text()
    careless = 'tracker.file(f"issue {n}")'
    assert careless in before
    jobs.write_text(before.replace(careless, careless[:-1] + ", key=str(n))"))
    assert place.run(str(place.out / "careless.repro.py")).returncode == 0
    jobs.write_text(before.replace(careless, "save(n); " + careless))
    changed = place.run(str(place.out / "careless.repro.py"))
    assert changed.returncode == 3
    assert "the program has changed: what was " in changed.stderr


@pytest.mark.parametrize(
    ("start", "status", "says"),
    [
        ("jobs.py:fails_without_a_crash", 3, "NO_START: without a crash the program failed"),
        ("jobs.py:has_no_point", 3, "the program announces no point"),
        ("jobs.py:wants_more", 3, "wants_more needs an argument 'model'"),
        ("jobs.py:no_such_job", 2, "there is no function no_such_job"),
        ("false", 3, "it left with exit status 1"),
        ("no-such-program --flag", 3, "cannot start 'no-such-program'"),
    ],
)
def test_what_cannot_be_swept_is_one_line_and_no_pass(place, start, status, says):
    done = swept(place, start)
    assert done.returncode == status
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert says in line
    assert not list(place.out.iterdir())


def test_a_restart_that_never_works_is_exit_status_3(place):
    done = swept(place, "jobs.py:cannot_read_its_state", "--depth", "1")
    assert done.returncode == 3
    assert "CRASHLOOP, VOID: " in done.stdout


def test_killed_processes_and_commands_come_to_the_same(place):
    command = f"{sys.executable} -c 'import jobs; from crashpoint.testing import tracker; "
    command += "jobs.careless(tracker())'"
    environment = {**place.env, "PYTHONPATH": str(place.out.parent)}
    for name, start in (("forked", "jobs.py:careless"), ("spawned", command)):
        mode = ("--mode", "fork") if name == "forked" else ()
        options = ("--out", str(place.out), "--depth", "1", "--name", name, *mode)
        done = place.run(
            "sweep", "run", "--start", start, *options, program=CRASHPOINT, env=environment
        )
        assert done.returncode == 1, done.stderr
    forked, spawned = (
        json.loads((place.out / f"{n}.json").read_text()) for n in ("forked", "spawned")
    )
    assert forked["basis"] == spawned["basis"] == "KILLED"
    for member in ("points", "outcomes", "sums"):
        assert forked[member] == spawned[member]


def test_show_and_repro_read_what_was_written(place):
    swept(place, "jobs.py:careless")
    file = str(place.out / "careless.json")
    document = json.loads(Path(file).read_text())
    summary = run(place, "show", file)
    assert summary.returncode == 0
    assert "careless: " in summary.stdout
    told = document["stories"][0]["id"]
    assert run(place, "show", file, told).stdout.startswith(f"{told}: DUPLICATED")
    good = next(f"{f['n']}-{f['name']}" for f in document["firsts"] if f["code"] == ".")
    assert f"--only {good}" in run(place, "show", file, good).stdout
    written = run(place, "repro", file, good, "--out", str(place.out / "again.py"))
    assert written.returncode == 0
    assert place.run(str(place.out / "again.py")).returncode == 0
    for subcommand in ("show", "repro"):
        unknown = run(place, subcommand, file, "1-nothing-like-it")
        assert unknown.returncode == 2
        assert "has no scenario 1-nothing-like-it" in unknown.stderr
    assert run(place, "show", str(JOBS)).returncode == 1


def test_a_program_without_effects_is_exit_status_3(place):
    (place.out.parent / "idle.py").write_text(
        "from crashpoint.testing import point\n\ndef idle():\n    point('reply')\n"
    )
    done = swept(place, "idle.py:idle")
    assert done.returncode == 3
    assert "no receiver saw an effect, even without a crash, so nothing is shown" in done.stdout


SLOW = """
import time
from crashpoint.testing import point

def slow(tracker):
    tracker.file("a", key="a")
    for n in range(60):
        point("step", str(n))
        time.sleep(0.001)
"""


@pytest.mark.parametrize("mode", ["raise", "fork"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_writes_what_is_done(place, mode, number):
    (place.out.parent / "slow.py").write_text(SLOW)
    process = start_watched(place, "slow.py:slow", "--mode", mode, "--name", "m")
    process.wait_for("scenarios")
    process.process.send_signal(number)
    assert process.end() == 130
    kept = json.loads((place.out / "m.partial.json").read_text())
    assert kept["complete"] is False
    assert kept["scenarios"] > 0
    assert "PARTIAL: not every scenario was run" in process.text
    assert not (place.out / "m.json").exists()
    checked = run(place, str(place.out / "m.partial.json"), program="verify")
    assert "PARTIAL" in checked.stdout


def test_nothing_is_left_when_it_is_killed(place):
    """The fixture looks for processes, sockets and folders."""
    (place.out.parent / "slow.py").write_text(SLOW)
    process = start_watched(place, "slow.py:slow", "--mode", "fork")
    process.wait_for("scenarios")
    process.process.kill()
    process.end()
    assert not list(place.out.iterdir())


@pytest.mark.parametrize("mode", ["raise", "fork"])
def test_two_sweeps_of_one_name_at_once_are_refused_until_the_first_has_ended(place, mode):
    (place.out.parent / "slow.py").write_text(SLOW)
    process = start_watched(place, "slow.py:slow", "--mode", mode, "--name", "mine")
    process.wait_for("scenarios")
    refused = swept(place, "jobs.py:careful", "--name", "mine")
    assert refused.returncode == 2
    assert "another run is writing" in refused.stderr
    assert "choose another --name" in refused.stderr
    assert not list(place.out.iterdir())
    assert swept(place, "jobs.py:careful", "--depth", "1", "--name", "other").returncode == 0
    process.process.kill()
    process.end()
    assert swept(place, "jobs.py:careful", "--depth", "1", "--name", "mine").returncode == 0


def test_what_is_expected_is_asked_of_the_run_without_a_crash_and_said_again(place):
    expected = ("--expected", "file=3", "--expected", "charge=0")
    done = swept(place, "jobs.py:careful", *expected, "--depth", "1")
    assert done.returncode == 1
    assert "file was asked for 3 times and done 2 times" in done.stdout
    (again,) = re.findall(r"^Again: (.+)$", done.stdout, re.MULTILINE)
    assert " ".join(expected) in again
    alone = run(place, *shlex.split(again)[2:])
    assert alone.returncode == 1
    repeated = place.run(str(place.out / "careful.repro.py"))
    assert (repeated.returncode, repeated.stdout) == (1, alone.stdout)
    checked = run(place, str(place.out / "careful.json"), program="verify")
    assert checked.stdout.startswith("ok ")
    mended = swept(place, "jobs.py:careful", "--expected", "file=2", "--depth", "1")
    assert mended.returncode == 0


def start_watched(place, start, *options):
    """Start it with a terminal for its output, and with nobody else to see it."""
    env = {name: value for name, value in place.env.items() if name != "CI"} | {"TERM": "xterm"}
    words = ["sweep", "run", "--start", start, "--out", str(place.out), *options]
    return Terminal(lambda **files: place.start(*words, program=CRASHPOINT, env=env, **files))


def test_on_a_terminal_it_shows_how_far_it_is_and_cleans_up(place):
    (place.out.parent / "slow.py").write_text(SLOW)
    process = start_watched(place, "slow.py:slow", "--depth", "1")
    process.wait_for("ETA")
    assert process.end() == 0
    assert re.search(r"\d+ scenarios, [\d,]+/s, point \d+ of \d+", process.text)
    assert "all exactly once" in process.text
    assert "\x1b[?25l" not in process.text.split("all exactly once")[-1]  # the cursor is shown


def test_without_a_terminal_it_shows_nothing_but_the_result(place):
    done = swept(place, "jobs.py:careful", "--depth", "1")
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
