import importlib
import json
import subprocess
import sys

import pytest

from crashpoint.model import S1_ROWS, FaultKind, as_json, table, with_s1_rows
from crashpoint.model.__main__ import main


@pytest.fixture
def registry():
    return importlib.import_module("crashpoint.adapters.registry")


def printed(capsys, *argv: str) -> str:
    assert main(argv) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


@pytest.mark.parametrize("argv", [(), ("--fault", "kill")])
def test_the_table_under_kill_unless_told_otherwise(capsys, argv):
    assert printed(capsys, *argv) == table(S1_ROWS, FaultKind.KILL) + "\n"


def test_the_table_under_freeze(capsys):
    assert printed(capsys, "--fault", "freeze") == table(S1_ROWS, FaultKind.FREEZE) + "\n"


@pytest.mark.parametrize("fault", FaultKind)
def test_json(capsys, fault):
    out = printed(capsys, "--json", "--fault", fault.value)
    assert json.loads(out) == as_json(S1_ROWS, fault)


def test_all_is_the_26_and_then_what_adapters_register(capsys, registry):
    rows = with_s1_rows(registry.all_rows())
    assert printed(capsys, "--all") == table(rows, FaultKind.KILL) + "\n"
    assert json.loads(printed(capsys, "--all", "--json")) == as_json(rows, FaultKind.KILL)


def test_all_shows_a_row_that_is_not_among_the_26(capsys, monkeypatch, registry):
    monkeypatch.setattr(registry, "all_rows", lambda: {"r_new": S1_ROWS["r_lost"]})
    lines = printed(capsys, "--all").splitlines()
    assert len(lines) == 1 + 26 + 1
    assert lines[-1].split()[0] == "r_new"


def test_an_adapter_that_takes_one_of_the_26_names_exits_1(capsys, monkeypatch, registry):
    monkeypatch.setattr(registry, "all_rows", lambda: {"r_dup": S1_ROWS["r_lost"]})
    assert main(["--all"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: row r_dup ")
    assert err.count("\n") == 1
    assert main([]) == 0, "without --all no adapter is asked"


@pytest.mark.parametrize("argv", [["--js"], ["--unknown"], ["--fault", "powercut"], ["r_null"]])
def test_an_unknown_option_exits_2(capsys, argv):
    with pytest.raises(SystemExit) as left:
        main(argv)
    assert left.value.code == 2
    assert argv[-1] in capsys.readouterr().err


def test_as_a_program():
    done = subprocess.run(
        [sys.executable, "-m", "crashpoint.model"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == table(S1_ROWS, FaultKind.KILL) + "\n"
    assert len(done.stdout.splitlines()) == 1 + 26
