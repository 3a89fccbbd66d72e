import re
import shlex
import subprocess
import sys

import pytest

from acceptance.sweep.pytest_project import Project, Run
from acceptance.sweep.terminal import Terminal, screen
from crashpoint.harness.verify import verify
from leftovers import nothing_left

TESTS = """
import agents
import pytest

def test_right(crash_sweep, tracker):
    report = crash_sweep(start=agents.careful, resume=agents.careful, depth=2)
    report.assert_exactly_once()

def test_wrong(crash_sweep):
    crash_sweep(agents.careless).assert_exactly_once()

def test_closure(crash_sweep, tracker, payments, person):
    titles = ["a", "b"]
    def agent():
        for title in titles:
            tracker.file(title, key=title)
        payments.charge("order", 100, key="c")
    crash_sweep(agent).assert_exactly_once()

async def agent(tracker):
    await agents.asyncio.sleep(0)
    tracker.file("a", key="a")

def test_async(crash_sweep):
    crash_sweep(agent).assert_exactly_once()

def test_tasks(crash_sweep):
    crash_sweep(agents.in_tasks).assert_exactly_once()

def test_two_sweeps(crash_sweep):
    crash_sweep(agents.careful, depth=1).assert_exactly_once()
    crash_sweep(agents.hasty, depth=1).assert_exactly_once()

class TestGroup:
    def test_in_a_class(self, crash_sweep):
        crash_sweep(agents.careful, depth=1).assert_exactly_once()

    @pytest.mark.parametrize("title", ["plain", "it's; $HOME"])
    def test_parametrised(self, crash_sweep, tracker, title):
        def careless():
            tracker.file(title)
        crash_sweep(careless, depth=1).assert_exactly_once()

def test_receivers_by_name(crash_sweep):
    crash_sweep(agents.careful, receivers={"tracker": "nothing"}, depth=1).assert_exactly_once()

def test_effect_names(crash_sweep):
    report = crash_sweep(agents.careful, effect=lambda op, args: args["title"], depth=1)
    assert sorted(report.clean.crossings) == ["issue 0", "issue 1"]
    report.assert_exactly_once()
"""
PASSING = {
    "test_right",
    "test_closure",
    "test_async",
    "test_tasks",
    "TestGroup::test_in_a_class",
    "test_effect_names",
}
BAD = """
import agents
import pytest

def sweep(crash_sweep, *arguments, **options):
    crash_sweep(*arguments, **options).assert_exactly_once()

def test_no_start(crash_sweep):
    sweep(crash_sweep, agents.fails_without_a_crash)

def test_no_point(crash_sweep):
    sweep(crash_sweep, agents.has_no_point)

def test_wants_more(crash_sweep):
    sweep(crash_sweep, agents.wants_more)

def test_no_function(crash_sweep):
    sweep(crash_sweep, 3)

def test_a_command(crash_sweep):
    sweep(crash_sweep, "true")

def test_depth(crash_sweep):
    sweep(crash_sweep, agents.careful, depth=0)

def test_mode(crash_sweep):
    sweep(crash_sweep, agents.careful, mode="explode")

def test_limit(crash_sweep):
    sweep(crash_sweep, agents.careful, limit_s=-1)

def test_dialect(crash_sweep):
    sweep(crash_sweep, agents.careful, receivers={"tracker": "kind"})

def test_receiver(crash_sweep):
    sweep(crash_sweep, agents.careful, receivers={"mail": "keyed"})

def test_fault(crash_sweep):
    sweep(crash_sweep, agents.careful, fault="meteor")

def test_wanders(crash_sweep, tmp_path):
    (tmp_path / "n").write_text("0")
    sweep(crash_sweep, agents.Drawing(tmp_path / "n"))

def test_in_a_loop(crash_sweep):
    async def inside():
        sweep(crash_sweep, agents.careful)
    agents.asyncio.run(inside())

def test_threads_before_a_fork(crash_sweep):
    import threading
    go = threading.Event()
    thread = threading.Thread(target=go.wait, name="mine")
    thread.start()
    try:
        sweep(crash_sweep, agents.careful, mode="fork")
    finally:
        go.set()
        thread.join()

def test_crash_loop(crash_sweep):
    sweep(crash_sweep, agents.cannot_read_its_state, depth=1)

def test_stuck(crash_sweep):
    sweep(crash_sweep, agents.hangs_when_resumed, depth=1, limit_s=0.3)
"""
SAID = {
    "test_no_start": "NO_START: without a crash the program failed: ValueError: no good",
    "test_no_point": "the program announces no point: there is nowhere to crash it",
    "test_wants_more": "wants_more needs an argument 'model', and a sweep has only folder, tracker",
    "test_no_function": "3 is neither a function nor a command",
    "test_a_command": "'true' is a command: sweep it with mode spawn",
    "test_depth": "depth must be a whole number from 1, not 0",
    "test_mode": "no mode 'explode'; there are raise, fork, spawn",
    "test_limit": "limit_s must be seconds above 0, not -1",
    "test_dialect": "no dialect 'kind'; there are keyed",
    "test_receiver": "no receiver 'mail'; there are tracker, payments",
    "test_fault": "no fault 'meteor'; there are kill, error",
    "test_wanders": "not deterministic without a crash: point 1 was drawn-1 and is now drawn-2",
    "test_in_a_loop": "a sweep runs event loops of its own: call it from a plain test",
    "test_threads_before_a_fork": "cannot fork beside other threads (mine)",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return Project(tmp_path_factory.mktemp("project"), TESTS)


@pytest.fixture(scope="module")
def plain(project):
    return project.run()


def expected(run):
    return {name for name, outcome in run.outcomes.items() if outcome == "passed"}


def test_what_is_right_passes_and_what_is_wrong_fails(plain):
    assert plain.code == 1
    assert expected(plain) == PASSING
    assert "error" not in plain.outcomes.values()


@pytest.mark.parametrize("mode", ["raise", "fork"])
def test_it_is_the_same_with_two_workers(project, plain, mode):
    spread = project.run("-n", "2", f"--crash-mode={mode}", "--crash-depth=1")
    assert spread.outcomes == plain.outcomes
    assert "cannot fork" not in spread.out


def test_a_failure_names_scenario_place_effect_and_command(plain):
    said = plain.said_of("test_wrong")
    assert "careless: " in said
    assert "not exactly once" in said
    assert re.search(r"Worst: \d+-accepted:file: DUPLICATED, 1 too many", said)
    assert re.search(r"E +agents\.py:\d+, in careless", said)
    assert re.search(r"file\(title='issue 0'\) +1 +2 +1 too many", said)
    assert "report.py" not in said.replace("crashpoint.sweep.report.", "")


def again_in(said):
    line = re.findall(r"^(?:E +)?Again: (.+)$", said, re.MULTILINE)[0]  # the rest may follow it
    return shlex.split(line)


@pytest.mark.parametrize(
    "test",
    [
        "test_wrong",
        "test_two_sweeps",
        "TestGroup::test_parametrised[plain]",
        "TestGroup::test_parametrised[it's; $HOME]",
        "test_receivers_by_name",
    ],
)
def test_the_command_it_prints_runs_that_scenario_alone_and_fails_again(project, plain, test):
    program, *arguments = again_in(plain.said_of(test))
    assert program == "pytest"
    alone = project.run(*arguments)
    assert alone.code == 1
    assert "1 failed" in alone.out
    assert "crash story" in alone.out
    assert again_in(alone.said_of(test).split("crash story")[0]) == [program, *arguments]


def test_a_second_sweep_has_its_number_before_the_id(plain):
    assert again_in(plain.said_of("test_two_sweeps"))[-1].startswith("2/")


def test_a_scenario_that_passes_is_told_as_well(project):
    test = "tests/test_agents.py::test_right"
    for workers in ((), ("-n", "1")):
        alone = project.run(test, "--crash-only=1-sending:file", *workers)
        assert alone.code == 0
        assert "crash story of tests/test_agents.py::test_right" in alone.out
        assert "1. start: died at point 1" in alone.out


@pytest.mark.parametrize(
    ("scenario", "says"),
    [
        ("3/1-sending:file", "--crash-only 3/1-sending:file was not run: "),
        ("1-reply", "the program has changed: what was 1-reply is 1-sending:file now"),
        ("99-reply", "the program has "),
        ("nonsense", "'nonsense' is no scenario: an id looks like"),
    ],
)
def test_a_scenario_that_is_not_there_is_never_a_pass(project, scenario, says):
    alone = project.run("tests/test_agents.py::test_right", f"--crash-only={scenario}")
    assert alone.code == 1
    assert says in alone.out
    assert "Traceback" not in alone.out


@pytest.fixture(scope="module")
def bad(tmp_path_factory):
    return Project(tmp_path_factory.mktemp("bad"), BAD).run()


@pytest.mark.parametrize("test", SAID)
def test_what_cannot_be_swept_is_one_clear_line_and_never_a_pass(bad, test):
    assert bad.outcomes[test] == "failed"
    lines = bad.said_of(test).strip().splitlines()
    assert lines[0].startswith("crash_sweep: ")
    assert SAID[test] in lines[0]
    assert lines[1] == f"tests/test_agents.py::{test}"


@pytest.mark.parametrize(
    ("test", "ending"), [("test_crash_loop", "CRASHLOOP"), ("test_stuck", "STUCK")]
)
def test_a_restart_that_does_not_end_well_fails_the_test(bad, test, ending):
    assert bad.outcomes[test] == "failed"
    assert f"{ending}, VOID: " in bad.said_of(test)


def test_reports_are_written_and_verify_and_their_repro_files_run(project):
    run = project.run("--crash-report=reports", "-k", "wrong or right or plain")
    folder = project.folder / "reports"
    names = sorted(path.name for path in folder.iterdir())
    assert "tests-test_agents-test_right.json" in names
    assert "tests-test_agents-test_right.html" in names
    assert not any("test_right.repro" in name for name in names)
    for path in folder.glob("*.json"):
        assert "crash scenarios" in verify(path).says
    (repro,) = folder.glob("*test_wrong.repro.py")
    assert f"Repro: reports/{repro.name}" in run.out
    assert str(project.folder) not in repro.read_text()
    assert run_file(project, repro).returncode == 1
    agents = project.folder / "agents.py"
    before = agents.read_text()
    careless = 'tracker.file(f"issue {n}")'
    try:
        agents.write_text(before.replace(careless, careless[:-1] + ", key=str(n))"))
        assert run_file(project, repro).returncode == 0
        agents.write_text(before.replace(careless, "save(n); " + careless))
        assert run_file(project, repro).returncode == 3
    finally:
        agents.write_text(before)


def run_file(project, path):
    return subprocess.run(
        [sys.executable, str(path)],
        cwd="/",
        env={**project.environment(), "PYTEST_PLUGINS": "crashpoint.pytest_plugin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_options_come_from_the_ini_file_and_arguments_beat_them(tmp_path):
    tests = """
import agents
def test_depth(crash_sweep):
    report = crash_sweep(agents.careful)
    assert (report.depth, report.basis) == (1, "KILLED")
    report = crash_sweep(agents.careful, depth=3, mode="raise")
    assert (report.depth, report.basis) == (3, "IN_PROCESS")
"""
    project = Project(tmp_path, tests, ini="crash_depth = 1\ncrash_mode = fork\n")
    assert project.run().outcomes == {"test_depth": "passed"}


@pytest.mark.parametrize(
    ("ini", "arguments", "says"),
    [
        ("crash_mode = explode\n", (), "ini crash_mode: 'explode' is none of raise, fork, spawn"),
        ("crash_depth = many\n", (), "ini crash_depth: 'many' is not a whole number from 1"),
        ("", ("--crash-depth=0",), "argument --crash-depth: invalid"),
        ("", ("--crash-mode=explode",), "argument --crash-mode: invalid choice: 'explode'"),
    ],
)
def test_wrong_options_stop_pytest_at_once(tmp_path, ini, arguments, says):
    run = Project(tmp_path, TESTS, ini=ini).run(*arguments)
    assert run.code == 4
    assert says in run.err


def test_a_job_that_cannot_be_ended_ends_the_run_and_says_so(tmp_path):
    tests = """
import agents
def test_it(crash_sweep):
    crash_sweep(agents.catches_everything_for_ever, limit_s=0.2).assert_exactly_once()
"""
    run = Project(tmp_path, tests).run()
    assert run.code == 3
    assert "the job catches BaseException and does not end" in run.err


def test_what_jobs_print_and_log_does_not_drown_the_report(tmp_path):
    tests = """
import agents, logging
def noisy(tracker):
    logging.getLogger("agent").warning("a warning of the agent")
    print("a line of the agent")
    agents.careless(tracker)
def test_it(crash_sweep):
    print("a line of the test")
    crash_sweep(noisy).assert_exactly_once()
"""
    run = Project(tmp_path, tests).run()
    assert run.out.count("a line of the test") >= 1
    assert "a line of the agent" not in run.out
    assert "a warning of the agent" not in run.out


def test_nothing_is_left_of_a_run_with_daemons():
    tests = """
import agents
import pytest
@pytest.mark.parametrize("mode", ["raise", "fork"])
def test_it(crash_sweep, mode):
    crash_sweep(agents.leaves_daemons, depth=1, mode=mode).assert_exactly_once()
"""
    with nothing_left() as place:
        folder = place.out.parent / "p"
        folder.mkdir()
        project = Project(folder, tests)
        env = {**project.environment(), **place.env}
        done = place.run(*project.command("-rA")[1:], cwd=folder, env=env)
        assert set(Run(done).outcomes.values()) == {"passed"}


SLOW = """
import time
from crashpoint.testing import point

def slow(tracker):
    tracker.file("a", key="a")
    for n in range(40):
        point("step", str(n))
        time.sleep(0.001)

def test_before():
    pass

def test_slow(crash_sweep):
    crash_sweep(slow, depth=1, dedupe=False).assert_exactly_once()
"""


@pytest.mark.parametrize(
    "options", [(), ("-v",), ("-s",), ("--capture=sys",), ("-p", "no:capture")]
)
def test_on_a_terminal_it_shows_how_far_it_is_and_leaves_no_trace(tmp_path, options):
    project = Project(tmp_path, SLOW)
    env = {name: v for name, v in project.environment().items() if name != "CI"}
    command, env = project.command(*options), {**env, "TERM": "xterm"}
    with Terminal(lambda **to: subprocess.Popen(command, cwd=tmp_path, env=env, **to)) as terminal:
        terminal.wait_for("ETA")
        terminal.wait_for(" s")
        shown = screen(terminal.text)
        assert re.match(r"  crash sweep: \d+ scenarios, \d+/s, point \d+ of 43, ETA \d", shown[-1])
        assert shown[-2].startswith("tests/test_agents.py")
        assert terminal.end() == 0
    left = screen(terminal.text)
    assert not any("crash sweep" in line for line in left)
    (result,) = [line for line in left if re.match(r"tests/test_agents\.py(::test_slow)? ", line)]
    assert re.search(r"(\.\.|PASSED)", result)
    assert "2 passed" in left[-2]


def test_the_plugin_is_found_by_its_entry_point(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--help"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "--crash-depth" in done.stdout
