import ast
import subprocess
import sys

import pytest

from crashpoint.sweep import repro


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def folder_in(path):
    """The folder that a file goes to, worked out as the file does."""
    tree = ast.parse(path.read_text())
    (call,) = (
        node.value.args[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and "sys.exit" in ast.unparse(node)
    )
    folder = next(keyword.value for keyword in call.keywords if keyword.arg == "folder")
    code = f"from pathlib import Path\n__file__ = {str(path)!r}\nprint({ast.unparse(folder)})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize("where", ["repro.py", "out/repro.py", "a/b/c/repro.py"])
def test_below_the_current_folder_a_file_names_it_by_where_it_lies_itself(here, where):
    path = here / where
    repro.write_test(path, "pytest tests/test_a.py::test_b", "1-reply")
    assert str(here) not in path.read_text()
    assert folder_in(path) == str(here)


def test_elsewhere_a_file_names_the_folder_whole(here, tmp_path_factory):
    path = tmp_path_factory.mktemp("elsewhere") / "repro.py"
    repro.write_test(path, "pytest tests/test_a.py::test_b", "1-reply")
    assert folder_in(path) == str(here)


def test_strange_names_stay_what_they_are(here):
    scenario = '1-it\'s """ \\ {x}'
    repro.write_job(here / "repro.py", {"start": "a'b.py:run", "mode": None}, scenario)
    constants = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in ast.parse((here / "repro.py").read_text()).body
        if isinstance(node, ast.Assign)
    }
    assert constants == {"SCENARIO": scenario, "JOB": {"start": "a'b.py:run", "mode": None}}


def test_options_of_the_test_are_kept(here):
    repro.write_test(here / "repro.py", "pytest 'test_a.py::test_b[x y]' --crash-mode=fork", "1-a")
    assert "['test_a.py::test_b[x y]', '--crash-mode=fork']" in (here / "repro.py").read_text()


def test_a_job_that_is_gone_is_exit_status_3(here, capsys):
    assert repro.run_job({"start": "gone.py:run"}, scenario="1-a", folder=here) == 3
    assert "there is no file gone.py" in capsys.readouterr().err
