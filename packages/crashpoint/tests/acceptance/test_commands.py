"""The commands as a reader types them: exit status, what is printed, what is written."""

import json
import sys
from pathlib import Path

import pytest

from acceptance.runs import CRASHPOINT, MATRIX
from crashpoint.harness.verify import verify
from crashpoint.model import S1_ROWS, Barrier, FaultKind, predict
from leftovers import nothing_left

CONTROLS = "r_null,r_dup,r_lost,r_idem,r_diverge,r_twophase"
LANGGRAPH = "r_lg_naive,r_lg_idem,r_lg_nondet,r_lg_twophase"


def as_predicted(document, *, k, overwritten=()):
    """Every cell of the matrix is what the model says, k times, and nothing else is in it.

    In the cells of `overwritten` the recovery told its caller another result than is stored now.
    """
    cells = document["summary"]["cells"]
    assert [cell["counts"] for cell in cells] == [
        {predict(S1_ROWS[row["name"]], Barrier(barrier), FaultKind(document["fault"])).value: k}
        for row in document["rows"]
        for barrier in document["barriers"]
    ]
    assert all(cell["agrees"] for cell in cells)
    wrong = {(cell["row"], cell["barrier"]): cell["wrong_results"] for cell in cells}
    assert {cell: n for cell, n in wrong.items() if n} == dict.fromkeys(overwritten, k)
    assert len(document["summary"]["findings"]) == len(overwritten)
    assert all(control["alive"] for control in document["summary"]["controls"])
    return len(cells)


def measured(place, *command, name, **options):
    """The document that a command wrote, after checks of all that it left and said."""
    done = place.run(*command, "--out", "o", **options)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in place.out.iterdir()) == [
        f"{name}.{ending}" for ending in ("html", "json", "png", "svg")
    ]
    document = json.loads((place.out / f"{name}.json").read_bytes())
    assert document["name"] == name
    for row in document["rows"]:
        assert row["name"] in done.stdout
    assert f"wrote o/{name}.json, o/{name}.png, o/{name}.svg, o/{name}.html" in done.stdout
    assert verify(place.out / f"{name}.json").says.endswith("exit 0")
    return document, done


@pytest.fixture(scope="module")
def controls():
    """S1's first matrix, small; its place is open until the module is done."""
    with nothing_left() as place:
        command = (*MATRIX, "--k", "2", "--runtimes", CONTROLS, "--name", "controls")
        document, done = measured(place, *command, name="controls")
        yield place, document, done


def crashpoint(place, *arguments):
    return place.run(*arguments, program=CRASHPOINT)


def test_the_controls(controls):
    _, document, done = controls
    assert as_predicted(document, k=2) == 18
    assert document["command"] == (
        f"python -m crashpoint.harness.matrix --k 2 --runtimes {CONTROLS} --name controls --out o"
    )
    assert "36 trials" in done.stdout
    assert {trial["seen"]["mode"] for trial in document["trials"]} == {"hot", "cold"}


def test_the_controls_under_freeze_by_the_other_form():
    with nothing_left() as place:
        options = ("--k", "2", "--runtimes", CONTROLS, "--name", "frozen", "--fault", "freeze")
        document, _ = measured(place, "matrix", *options, name="frozen", program=CRASHPOINT)
    assert as_predicted(document, k=2) == 18
    # The same words as from the other form: either runs the same function.
    assert document["command"] == (
        f"python -m crashpoint.harness.matrix {' '.join(options)} --out o"
    )


def test_the_demonstration():
    with nothing_left() as place:
        document, done = measured(place, "demo", "--k", "2", name="demo", program=CRASHPOINT)
    assert as_predicted(document, k=2) == 12
    assert [row["name"] for row in document["rows"]] == LANGGRAPH.split(",")
    assert document["command"] == (
        f"python -m crashpoint.harness.matrix --k 2 --runtimes {LANGGRAPH} --name demo --out o"
    )
    assert done.stdout.startswith("A graph of three nodes charges a customer once.")
    assert document["engines"]["langgraph"]["subject"]["versions"].keys() >= {"langgraph"}


@pytest.mark.parametrize("fault", ["kill", "freeze"])
def test_langgraph(fault):
    with nothing_left() as place:
        options = ("--k", "2", "--runtimes", LANGGRAPH, "--fault", fault, "--cold", "0")
        document, _ = measured(place, *MATRIX, *options, "--name", "langgraph", name="langgraph")
    # The thawed process saves what it drew over what the recovery drew, saved and reported.
    drawn = ("r_lg_nondet", "r_lg_twophase") if fault == "freeze" else ()
    overwritten = [(row, barrier) for row in drawn for barrier in ("b0", "b1")]
    assert as_predicted(document, k=2, overwritten=overwritten) == 12


def test_a_control_that_was_not_asked_for_runs_apart():
    with nothing_left() as place:
        options = ("--k", "2", "--runtimes", "r_idem", "--barriers", "b2", "--name", "apart")
        document, _ = measured(place, *MATRIX, *options, name="apart")
    assert [trial["trial"] for trial in document["control_trials"]] == [
        "r_dup.control.0000",
        "r_dup.control.0001",
    ]
    assert document["summary"]["controls"][0]["counts"] == {"DUPLICATED": 2}


def test_no_path_of_this_machine_is_in_the_evidence(controls):
    place, _, _ = controls
    text = (place.out / "controls.json").read_text()
    for folder in (str(place.out), str(place.tmp), sys.prefix, str(Path(__file__).parents[4])):
        assert folder not in text


def test_verify(controls):
    place, _, _ = controls
    text = (place.out / "controls.json").read_text()
    (place.tmp.parent / "forged.json").write_text(text.replace("DUPLICATED", "EXACTLY_ONCE", 1))
    good = crashpoint(place, "verify", "o/controls.json")
    mixed = crashpoint(place, "verify", "forged.json", "o/controls.json", "nowhere.json")
    assert (good.returncode, good.stderr) == (0, "")
    assert good.stdout.splitlines()[0] == "ok    o/controls.json: 36 trials, fault kill, exit 0"
    assert (mixed.returncode, mixed.stderr) == (1, "")
    lines = [line for line in mixed.stdout.splitlines() if not line.startswith(" ")]
    assert lines == [
        "FAIL  forged.json: the receipt is not the content's",
        "ok    o/controls.json: 36 trials, fault kill, exit 0",
        "FAIL  nowhere.json: cannot be read: No such file or directory",
    ]


def test_ledger(controls):
    place, document, _ = controls
    every = crashpoint(place, "ledger", "o/controls.json")
    assert every.returncode == 0
    assert len(every.stdout.splitlines()) == 6 + 36
    some = crashpoint(
        place, "ledger", "o/controls.json", "--row", "r_lost", "--barrier", "b1", "--json"
    )
    assert [json.loads(line) for line in some.stdout.splitlines()] == [
        trial
        for trial in document["trials"]
        if (trial["row"], trial["barrier"]) == ("r_lost", "b1")
    ]
    one = crashpoint(place, "ledger", "o/controls.json", "--trial", "r_dup.b1.0001")
    assert one.returncode == 0
    assert one.stdout.startswith("r_dup.b1.0001")
    assert "DUPLICATED" in one.stdout
    assert "order-7" in one.stdout
    none = crashpoint(place, "ledger", "o/controls.json", "--trial", "r_dup.b1.0002")
    assert none.returncode == 2
    assert "o/controls.json holds no such trial" in none.stderr


def test_report_draws_the_same_again(controls):
    place, _, _ = controls
    done = crashpoint(place, "report", "o/controls.json", "--out", "again")
    assert done.returncode == 0, done.stderr
    again = place.tmp.parent / "again"
    for ending in ("html", "svg"):
        assert (again / f"controls.{ending}").read_bytes() == (
            place.out / f"controls.{ending}"
        ).read_bytes()
    assert "wrote again/controls.png" in done.stdout


@pytest.mark.parametrize("command", ["ledger", "report"])
def test_a_forged_file_is_not_shown(controls, command):
    place, _, _ = controls
    text = (place.out / "controls.json").read_text()
    (place.tmp.parent / "forged.json").write_text(text.replace("DUPLICATED", "EXACTLY_ONCE", 1))
    done = crashpoint(place, command, "forged.json")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "Error: forged.json: the receipt is not the content's\n"


def test_model_is_the_module(controls):
    place, _, _ = controls
    for options in ((), ("--json", "--fault", "freeze"), ("--all",)):
        by_module = place.run("-m", "crashpoint.model", *options)
        by_command = crashpoint(place, "model", *options)
        assert by_command.returncode == by_module.returncode == 0
        assert by_command.stdout == by_module.stdout != ""


def test_help_lists_every_command(controls):
    place, _, _ = controls
    done = crashpoint(place, "--help")
    lines = done.stdout.split("Commands:")[1].splitlines()
    listed = [line.split()[0] for line in lines if line[2:3].strip()]
    assert {"demo", "ledger", "matrix", "model", "report", "verify"} <= set(listed)
    assert listed == sorted(listed)
