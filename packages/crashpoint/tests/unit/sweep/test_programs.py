import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from crashpoint.canonical import parse
from crashpoint.harness.verify import verify
from crashpoint.pipeline.evidence import EvidenceFault
from crashpoint.report.markdown import render
from crashpoint.sweep.programs import CLEAN, fault_in, swept, table, write
from unit.sweep.reports import report

SCRIPT = Path(__file__).parents[5] / "benchmarks" / "programs.py"
COMMAND = "python benchmarks/programs.py --out evidence/some.json"


def rows():
    """One that is caught and one that is clean."""
    careless = swept(report(), program="careless", about="no keys", expected="DUPLICATED")
    careful = swept(report("careful"), program="careful", about="none", expected=CLEAN)
    return [careless, careful]


def document(*given):
    return {"rows": [vars(row) for row in given]}


def test_a_report_becomes_a_line_that_holds():
    careless, careful = rows()
    assert (careless.worst, careless.crashes, careless.id) == ("DUPLICATED", 1, "2-accepted:file")
    assert (careful.worst, careful.crashes, careful.id) == (CLEAN, 0, "")
    assert careless.points == len(report().points)
    assert sum(careless.outcomes.values()) == careless.scenarios == report().scenarios
    assert careless.holds
    assert careful.holds
    assert fault_in(document(careless, careful)) is None


def test_a_wrong_result_is_no_pass():
    wrong = swept(report("forgetful"), program="forgetful", about="none", expected=CLEAN)
    assert wrong.worst == "WRONG"
    assert not wrong.holds
    assert fault_in(document(wrong)) is None


def test_the_table_says_what_was_not_known():
    careless, careful = rows()
    shown = table([careless, replace(careful, expected="LOST")]).splitlines()
    assert re.search(r" 1  DUPLICATED +no keys$", shown[1])
    assert "EXPECTED" not in shown[1]
    assert shown[2].endswith("EXACTLY_ONCE  none, EXPECTED LOST")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"worst": "LOST"}, "the worst, LOST, is none of the outcomes"),
        ({"worst": CLEAN}, "the worst is EXACTLY_ONCE, and others failed"),
        ({"scenarios": 3}, "careless, raise: 3 scenarios, the outcomes are "),
        ({"crashes": 0}, "DUPLICATED after 0 crashes"),
        ({"crashes": 2}, "DUPLICATED after 2 crashes"),
        ({"id": ""}, "the scenario is ''"),
        ({"id": "first"}, "is no scenario"),
        ({"depth": 0}, "DUPLICATED after 1 crashes"),
        ({"expected": "ONCE"}, "there is no outcome 'ONCE'"),
    ],
)
def test_a_line_that_does_not_hold_together_is_named(change, says):
    assert says in fault_in(document(replace(rows()[0], **change)))


def test_what_is_written_verifies_and_is_rendered(tmp_path):
    path = tmp_path / "some.json"
    careless, careful = rows()
    killed = replace(careless, mode="fork", basis="KILLED")
    write(path, COMMAND, [careless, killed, replace(careful, expected="LOST")], dedupe=False)
    checked = verify(path)
    assert checked.says == "3 sweeps of programs, 1 not as known before"
    assert checked.warnings[0] == "careful, raise: EXACTLY_ONCE, expected LOST"
    assert render("programs", parse(path.read_bytes()), "evidence/some.json") == (
        f"""\
| program | fault | crashed by | depth | points | scenarios | worst outcome | \
after so many crashes |
| --- | --- | --- | --- | --- | --- | --- | --- |
| `careless` | no keys | raise, fork | 2 | {careless.points} | {careless.scenarios} | DUPLICATED | \
1: `2-accepted:file` |
| `careful` | none | raise | 2 | {careful.points} | {careful.scenarios} | EXACTLY\\_ONCE \
**expected LOST** |  |

3 sweeps, {2 * careless.scenarios + careful.scenarios} scenarios, 1 not as known before \
([evidence/some.json](evidence/some.json), made by `{COMMAND}`)."""
    )
    path.write_bytes(path.read_bytes().replace(b'"DUPLICATED": ', b'"DIVERGED": '))
    with pytest.raises(EvidenceFault):
        verify(path)


def run(folder, *arguments):
    command = [sys.executable, str(SCRIPT), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_the_programs_are_swept_by_one_command(tmp_path):
    done = run(tmp_path, "triage", "--depth", "1", "--out", "some.json")
    assert done.returncode == 0, done.stderr
    found = [line.split()[:2] for line in done.stdout.splitlines()[1:]]
    programs = ("triage_buggy", "triage_right")
    assert found == [[program, mode] for mode in ("raise", "fork") for program in programs]
    assert done.stderr.startswith("1 of 4: triage_buggy, raise: ")
    made = parse((tmp_path / "some.json").read_bytes())
    assert made["command"] == "python benchmarks/programs.py triage --depth 1 --out some.json"
    assert [row["worst"] for row in made["rows"]] == ["LOST", CLEAN] * 2
    assert {row["basis"] for row in made["rows"]} == {"IN_PROCESS", "KILLED"}
    assert made["dedupe"] is False
    verify(tmp_path / "some.json")


def test_a_program_that_is_not_there_is_wrong_usage(tmp_path):
    done = run(tmp_path, "nobody")
    assert done.returncode == 2
    assert "no program begins with ['nobody']; there are refunds_buggy, " in done.stderr
