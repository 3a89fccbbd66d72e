import shlex

import pytest

from crashpoint.report import text
from unit.report.documents import document, trial

SAMPLE = """\
sample: kill at b0, b1, b2, 2 trials a cell
engine controls: engine 1.2.3, cpython 3.11.7
python -m crashpoint.harness.matrix --k 2 --runtimes r_dup --name sample

row     at  predicted     observed      hits  95% interval  VOID  agrees
------------------------------------------------------------------------
r_dup   b0  EXACTLY_ONCE  as predicted   2/2   34.2-100.0%     0  yes
        b1  DUPLICATED    as predicted   2/2   34.2-100.0%     0  yes
        b2  EXACTLY_ONCE  as predicted   2/2   34.2-100.0%     0  yes
r_idem  b0  EXACTLY_ONCE  as predicted   2/2   34.2-100.0%     0  yes
        b1  EXACTLY_ONCE  as predicted   2/2   34.2-100.0%     0  yes
        b2  EXACTLY_ONCE  as predicted   2/2   34.2-100.0%     0  yes

Time to recover, from the fault to the engine's final state. hot: a process took over that had the
engine imported; cold: a fresh interpreter did. p95 is given for 30 recoveries or more.

row     at  hot median  hot max  hot n  cold median  cold max  cold n
---------------------------------------------------------------------
r_dup   b0     40.0 ms  40.0 ms      1      40.0 ms   40.0 ms       1
        b1     40.0 ms  40.0 ms      1      40.0 ms   40.0 ms       1
        b2     40.0 ms  40.0 ms      1      40.0 ms   40.0 ms       1
r_idem  b0     40.0 ms  40.0 ms      1      40.0 ms   40.0 ms       1
        b1     40.0 ms  40.0 ms      1      40.0 ms   40.0 ms       1
        b2     40.0 ms  40.0 ms      1      40.0 ms   40.0 ms       1

controls:
  - alive: r_dup at b1 should be DUPLICATED and was DUPLICATED 2

findings:
  - none

How to read it: b0 is before the effect and before its completion is saved, b1 between the two, b2
after both. Hits are the trials that came out as predicted, of all k, VOID ones included. A red cell
(DUPLICATED, DIVERGED, LOST) that was predicted is a fact about the row, no fault of the run.

12 trials in 3.2 s, 0 disagreements with the model, 0 VOID: every cell agrees with its prediction.
Exit status 0."""


def line_of(printed: str, *words: str) -> list[str]:
    """The fields of the one line that holds all the words."""
    (found,) = (line for line in printed.split("\n") if all(word in line for word in words))
    return found.split()


def unfolded(printed: str) -> str:
    return " ".join(printed.split())


def test_a_run_that_agrees():
    assert text.matrix(document(), seconds=3.21) == SAMPLE


def test_the_duration_of_the_run_is_left_out_where_it_is_not_known():
    assert unfolded(text.matrix(document())).endswith(
        " run. 12 trials, 0 disagreements with the model, 0 VOID: every cell agrees with its"
        " prediction. Exit status 0."
    )


def test_reading_takes_three_lines():
    assert text.reading() in SAMPLE
    assert text.reading().count("\n") == 2


def test_a_cell_that_differs_says_what_was_seen_instead():
    trials = [trial("r_dup", "b1", n, o) for n, o in enumerate(["LOST", "DUPLICATED", "VOID"])]
    printed = text.matrix(document(["r_dup"], barriers=["b1"], trials=trials, k=3))
    assert line_of(printed, "b1", "1/3") == [
        *("r_dup", "b1", "DUPLICATED", "mixed", "1/3", "6.2-79.2%", "1", "NO")
    ]
    assert "\n                       DUPLICATED 1, LOST 1, VOID 1\n" in printed
    assert "  - r_dup at b1: predicted DUPLICATED, observed" in printed
    assert "1 x the recovery hung" in printed
    assert unfolded(printed).endswith(": a cell disagrees with its prediction. Exit status 1.")


def test_one_other_outcome_is_named_in_the_line():
    trials = [trial("r_dup", "b1", n, "LOST") for n in range(2)]
    printed = text.matrix(document(["r_dup"], barriers=["b1"], trials=trials))
    assert line_of(printed, "b1", "0/2")[2:5] == ["DUPLICATED", "LOST", "0/2"]


def test_a_dead_control_certifies_nothing():
    trials = [trial("r_idem", b, n) for b in ("b0", "b1", "b2") for n in range(2)]
    dead = [trial("r_dup", "b1", n, "EXACTLY_ONCE") for n in range(2)]
    printed = text.matrix(document(["r_idem"], trials=trials, control_trials=dead))
    assert "  - DEAD: r_dup at b1 should be DUPLICATED and was EXACTLY_ONCE 2" in printed
    assert unfolded(printed).endswith(
        ": nothing is certified, because a control is dead. Exit status 3."
    )


def test_results_that_differ_are_findings():
    trials = [trial("r_dup", "b1", n, "DUPLICATED", result="WRONG") for n in range(2)]
    printed = text.matrix(document(["r_dup"], barriers=["b1"], trials=trials))
    assert "  - r_dup at b1: 2 recovered runs report another result (WRONG)" in printed


def test_p95_has_a_column_only_where_a_cell_has_one():
    def printed(k: int) -> str:
        trials = [trial("r_dup", "b1", n, "DUPLICATED", recover_us=1000 * n) for n in range(k)]
        return text.matrix(document(["r_dup"], barriers=["b1"], trials=trials, k=k))

    assert "hot p95" not in printed(29)
    assert line_of(printed(30), "28.0 ms")[2:] == ["14.5", "ms", "28.0", "ms", "29.0", "ms", "30"]


def test_no_times_without_a_recovery_that_counts():
    trials = [trial("r_dup", "b1", n, "VOID") for n in range(2)]
    printed = text.matrix(document(["r_dup"], barriers=["b1"], trials=trials))
    assert "Time to recover" not in printed


def test_forced_waits_are_printed_with_the_times():
    made = document()
    made["engines"]["controls"]["waits_s"] = {"visibility time-out": 2.5}
    assert "  - controls: visibility time-out 2.5 s" in text.matrix(made)


def test_the_command_can_be_pasted_even_when_it_is_folded():
    words = ["python", "-m", "m", "--name", "it's 'it'", *("a" * 30 for _ in range(9))]
    made = document(command=shlex.join(words))
    printed = text.matrix(made).split("\n\n")[0]
    assert printed.count(" \\\n") == 3
    assert shlex.split(printed[printed.index("python -m") :].replace("\\\n", "")) == words


def test_a_command_that_no_shell_takes_is_printed_as_it_is():
    assert "\nit's broken\n" in text.matrix(document(command="it's broken"))


@pytest.mark.parametrize(
    "rows", [["r_null", "r_dup", "r_lost", "r_idem", "r_diverge", "r_twophase"]]
)
def test_the_controls_fit_into_100_columns(rows):
    assert max(map(len, text.matrix(document(rows, k=100), seconds=12345.6).split("\n"))) <= 100


def test_nothing_a_subject_said_reaches_the_terminal_as_a_control_character():
    nasty = "\x1b]0;owned\x07\r\x9b31m\u202e"
    trials = [trial("bad\x1b[2J", "b1", 0, "VOID", void=nasty)]
    made = document(
        ["r_dup"], barriers=["b1"], trials=trials, k=1, rename={"r_dup": "bad\x1b[2J"}, name=nasty
    )
    made["engines"] = {nasty: made["engines"]["controls"] | {"waits_s": {nasty: 1.0}}}
    made["engines"][nasty]["subject"] |= {"unlocked": [nasty], "versions": {nasty: nasty}}
    made["command"] = nasty
    assert all(c.isprintable() or c == "\n" for c in text.matrix(made))
