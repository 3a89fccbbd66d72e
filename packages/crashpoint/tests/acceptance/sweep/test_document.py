import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from acceptance.sweep.document_blocks import (
    BOXES,
    DOCUMENT,
    EXAMPLES,
    in_document,
    printed,
    pytest_prints,
)
from crashpoint.pytest_plugin import MODES
from crashpoint.sweep.faults import SweepFaultKind

CRASHPOINT = str(Path(sys.executable).with_name("crashpoint"))


def test_every_box_stands_in_the_document():
    assert in_document().keys() == BOXES.keys()


@pytest.mark.parametrize("name", BOXES)
def test_a_box_shows_what_is_printed(name):
    """To write them anew, in tests/: `python -m acceptance.sweep.document_blocks --write`."""
    assert in_document()[name] == printed(name)


def test_the_example_fails_and_its_twin_passes():
    assert "1 failed" in pytest_prints("test_agent.py")
    assert "1 passed" in pytest_prints("test_fixed.py")


def test_the_example_is_about_forty_lines():
    assert len((EXAMPLES / "agent.py").read_text().splitlines()) <= 45


def test_the_twin_differs_by_the_fix_alone():
    changed = [line for line in printed("fix").splitlines() if re.match(r"[+-][^+-]", line)]
    assert len(changed) <= 8


def test_modes_and_faults_are_all_explained():
    text = DOCUMENT.read_text()
    assert all(f"| `{mode}`" in text for mode in MODES)
    assert all(f"| `{kind}` |" in text for kind in SweepFaultKind if kind != "kill")


def test_no_figure_stands_outside_of_a_box():
    text = re.sub(r"```(?s:.*?)```|<!-- printed: \w+ -->\n(\|.*\n)+", "", DOCUMENT.read_text())
    assert not re.findall(r"\b\d[\d,.]* (?:of|scenarios|s\b|ms\b|/s|points|processes)", text)


def test_the_javascript_agent_is_exactly_once(tmp_path):
    if shutil.which("node") is None:
        pytest.skip("no node here")
    (program,) = re.findall(r"(?s)```javascript\n(.*?)```", DOCUMENT.read_text())
    (tmp_path / "agent.mjs").write_text(program)
    assert "\ncrashpoint sweep run --start 'node agent.mjs'\n" in DOCUMENT.read_text()
    done = subprocess.run(
        [CRASHPOINT, "sweep", "run", "--start", "node agent.mjs", "--depth", "1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all exactly once" in done.stdout
    assert (tmp_path / "out" / "agent.json").is_file()
