import pytest

from crashpoint.report import sweep_text
from crashpoint.sweep.report import as_json
from unit.sweep.reports import document, report


def test_the_complaint_has_the_worst_scenario_its_place_the_ledger_and_the_command():
    text = as_lines(sweep_text.complaint(document()))
    assert text[0].startswith("careless: ")
    assert "not exactly once" in text[0]
    (worst,) = [line for line in text if line.startswith("Worst: ")]
    assert worst.endswith("-accepted:file: DUPLICATED, 1 too many")
    assert any(line.strip().startswith("1. start: died at point") for line in text)
    assert any("sweep_jobs.py:" in line and line.endswith(", in careless") for line in text)
    assert any("file(title='issue 0')" in line and line.endswith("1 too many") for line in text)
    assert any(line.startswith("Why: it was sent again without a key") for line in text)
    assert text[-1].startswith("Again: pytest test_agent.py::test_it --crash-only ")


def as_lines(text):
    lines = text.splitlines()
    assert all(len(line) <= 100 or " " not in line.strip() for line in lines if "Again" not in line)
    assert text.isascii()
    return lines


def test_something_missing_is_named():
    text = sweep_text.complaint(document("hasty"))
    assert "1 missing" in text
    assert "Why: no process sent it" in text


def test_another_result_is_shown_beside_that_of_a_run_without_a_crash():
    text = sweep_text.complaint(document("forgetful"))
    assert 'It returned {"resumed": true}; without a crash, {"resumed": false}' in text


def test_a_good_sweep_has_no_complaint():
    summary = sweep_text.summary(document("careful"))
    assert "all exactly once" in summary
    assert "Worst" not in summary


def test_the_summary_has_a_line_a_point_and_a_letter_a_second_crash():
    made = document()
    lines = sweep_text.summary(made).splitlines()
    for first in made["firsts"]:
        (line,) = [s for s in lines if s.strip().startswith(f"{first['n']}  {first['name']}")]
        assert line.split()[-1] in {first["again"], first["code"]}


def test_a_story_is_told_whole():
    made = document()
    text = sweep_text.story(made["stories"][0], made)
    assert "passed" in text
    assert "state.json" in text
    assert "Again: pytest" in text


def test_a_worst_scenario_without_a_story_is_told_in_brief():
    made = as_json(report("careless", stories=0))
    assert "1. start: died at point" in sweep_text.complaint(made)


def test_what_a_program_says_is_shown_and_not_obeyed():
    made = document()
    made["job"] = "job\x1b[31m\n::error::x"
    made["stories"][0]["said"] = "\x1b[2J"
    text = sweep_text.summary(made) + sweep_text.story(made["stories"][0], made)
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        ([], []),
        (["a"], ["a"]),
        (["a", "a", "a"], ["a x 3"]),
        (["a", "b", "a", "b", "c"], ["(a, b) x 2", "c"]),
        (["x", "a", "b", "c", "a", "b", "c", "a"], ["x", "(a, b, c) x 2", "a"]),
    ],
)
def test_repetitions_are_folded(names, folded):
    assert sweep_text.collapsed(names) == folded


@pytest.mark.parametrize(
    ("place", "file_and_line", "function"),
    [
        ("agent.py:16 run", "agent.py:16", "run"),
        ("my agents/a.mjs:7", "my agents/a.mjs:7", ""),
        ("C:/a b.rs:7 main", "C:/a b.rs:7", "main"),
        ("line 7 of\nagent.mjs", "line 7 of\\nagent.mjs", ""),
        ("", "", ""),
    ],
)
def test_a_place_is_shown_however_a_program_says_it(place, file_and_line, function):
    assert sweep_text.place_of([place], 1) == file_and_line
    assert sweep_text.located(place)[2] == function
