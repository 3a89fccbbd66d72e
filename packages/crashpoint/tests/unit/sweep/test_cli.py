import shlex

import pytest
from click.testing import CliRunner

from crashpoint.sweep.cli import Settings, command, entry_of
from crashpoint.sweep.words import SweepFault


@pytest.fixture
def agent(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "an_agent.py").write_text(
        "class Agent:\n    def run():\n        pass\n\nLIMIT = 3\n"
    )
    return tmp_path


@pytest.mark.parametrize(
    "text",
    ["python a.py", "node agent.js --port 80:a", "./run.sh", "curl http://x/y:z", "a b.py:c"],
)
def test_anything_else_is_a_command(text):
    assert entry_of(text) == text


@pytest.mark.parametrize("text", ["an_agent.py:Agent.run", "json:dumps", "os.path:join"])
def test_functions_are_found_by_file_or_by_module(text, agent):
    assert callable(entry_of(text))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("gone.py:run", "there is no file gone.py"),
        ("an_agent.py:gone", "there is no function gone"),
        ("an_agent.py:LIMIT", "there is no function LIMIT"),
        ("no_such_module:run", "cannot import no_such_module: ModuleNotFoundError"),
    ],
)
def test_a_function_that_is_not_there_is_named(text, says, agent):
    with pytest.raises(SweepFault, match=says):
        entry_of(text)


def test_one_file_is_one_module(agent):
    assert entry_of("an_agent.py:Agent") is entry_of("./an_agent.py:Agent")


def test_the_command_to_run_again_has_what_matters_and_nothing_else():
    given = Settings("python a.py", resume="python b.py", depth=1, limit_s=2.5, dedupe=False)
    assert shlex.split(given.again())[3:] == [
        *("--start", "python a.py", "--resume", "python b.py", "--limit", "2.5", "--only")
    ]
    assert Settings("a.py:b", tracker="nothing", person_wrong_rate=0.5).again() == (
        "crashpoint sweep run --start a.py:b --tracker nothing --person-wrong-rate 0.5 --only"
    )
    assert Settings("a.py:b", expected={"refund": 2, "charge": 0}).again() == (
        "crashpoint sweep run --start a.py:b --expected refund=2 --expected charge=0 --only"
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "Missing option '--start'"),
        (["--start", "gone.py:run"], "there is no file gone.py"),
        (["--start", "json:dumps", "--resume", "python a.py"], "two functions or two commands"),
        (["--start", "json:dumps", "--mode", "spawn"], "--start is a function"),
        (["--start", "python a.py", "--mode", "fork"], "--start is a command"),
        (["--start", "json:dumps", "--depth", "0"], "0 is not in the range"),
        (["--start", "json:dumps", "--limit", "0"], "0.0 is not in the range"),
        (["--start", "json:dumps", "--tracker", "none"], "'none' is not one of"),
        (["--start", "json:dumps", "--only", "five"], "an id looks like"),
        (["--start", "json:dumps", "--name", "../x"], "is no name"),
        (["--start", "json:dumps", "--fault", "wrong-answer"], "--person-wrong-rate"),
        (["--start", "json:dumps", "--expected", "refund"], "OPERATION=NUMBER"),
        (["--start", "json:dumps", "--expected", "refund=-1"], "'refund=-1': write"),
        (["--start", "json:dumps", "--expected", "refnd=1"], "charge, comment, file, refund"),
        (["--start", "json:dumps", *("--expected", "file=1") * 2], "once for an operation"),
    ],
)
def test_wrong_usage_is_exit_status_2_and_one_line(arguments, says):
    done = CliRunner().invoke(command, ["run", *arguments])
    assert done.exit_code == 2
    assert says in done.output
    assert "Traceback" not in done.output


def test_the_help_has_every_option():
    done = CliRunner().invoke(command, ["run", "--help"])
    assert all(f"--{name}" in done.output for name in ("start", "resume", "fault", "junit", "only"))
