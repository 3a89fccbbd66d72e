"""scripts/draw_machines.py: the page is what the tables say, or the check fails."""

from __future__ import annotations

import dataclasses
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from outlive.core.tables import MACHINES, RUN, Run, RunEvent

ROOT = Path(__file__).parents[4]
SCRIPT = ROOT / "scripts" / "draw_machines.py"


@pytest.fixture
def script():
    spec = importlib.util.spec_from_file_location("draw_machines", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def root(tmp_path):
    (tmp_path / "docs").mkdir()
    return tmp_path


def test_the_page_in_this_repository_is_what_the_tables_say():
    done = subprocess.run(
        [sys.executable, SCRIPT, "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_what_was_written_passes_and_shows_every_arrow(script, root):
    assert script.main(["--root", str(root)]) == 0
    assert script.main(["--root", str(root), "--check"]) == 0
    text = (root / "docs" / "machines.md").read_text()
    diagrams = re.findall(r"```mermaid\n(.*?)\n```", text, re.DOTALL)
    for machine, diagram in zip(MACHINES, diagrams, strict=True):
        assert machine.about in text.replace("\n", " ")
        drawn = set()
        for line in diagram.splitlines():
            if found := re.fullmatch(r" +(\w+) --> (\w+): (.+)", line):
                drawn |= {(found[1], event, found[2]) for event in found[3].split(", ")}
        assert drawn == {
            (state, event, then)
            for state, row in machine.table.items()
            for event, then in row.items()
        }
        ends = set(re.findall(r"(\w+) --> \[\*\]", diagram))
        assert ends == {state for state in machine.table if machine.final(state)}
        assert f"[*] --> {machine.first}" in diagram


def changed(state: Run, event: RunEvent, then: Run | None):
    """The machines with one arrow of a run elsewhere, or none."""
    table = {one: dict(row) for one, row in RUN.table.items()}
    table[state].pop(event, None)
    if then is not None:
        table[state][event] = then
    return tuple(dataclasses.replace(one, table=table) if one is RUN else one for one in MACHINES)


@pytest.mark.parametrize(
    "machines",
    [
        changed(Run.WAITING, RunEvent.WAKE, Run.RUNNING),
        changed(Run.WAITING, RunEvent.WAKE, None),
        changed(Run.COMPLETED, RunEvent.CANCEL, Run.CANCELLED),
        (dataclasses.replace(RUN, about="Another sentence."), *MACHINES[1:]),
        MACHINES[:-1],
    ],
    ids=["an arrow elsewhere", "an arrow less", "an end that is none", "a sentence", "a machine"],
)
def test_the_check_fails_when_a_table_changes(script, root, machines, monkeypatch, capsys):
    script.main(["--root", str(root)])
    page = root / "docs" / "machines.md"
    before = page.read_text()
    monkeypatch.setattr(script, "MACHINES", machines)
    assert script.main(["--root", str(root), "--check"]) == 1
    line = capsys.readouterr().out
    assert line == (
        "machines: docs/machines.md is not what the tables say; "
        "run `python scripts/draw_machines.py`\n"
    )
    assert page.read_text() == before


def test_the_check_fails_without_a_page_and_when_it_was_edited(script, root):
    assert script.main(["--root", str(root), "--check"]) == 1
    assert not (root / "docs" / "machines.md").exists()
    script.main(["--root", str(root)])
    with (root / "docs" / "machines.md").open("a") as page:
        page.write("\n")
    assert script.main(["--root", str(root), "--check"]) == 1
