"""Subjects that do anything but what they should: each is VOID with its reason, or measured all the
same; none disturbs another or outlives the run.
"""

import json

import pytest

from acceptance.broken_adapter import NAMES, TESTS
from crashpoint.harness.verify import verify
from leftovers import nothing_left

LIMIT_S = "3"
FREEZE = (
    "well",
    "catches_everything",
    "runs_threads",
    "starts_processes",
    "prints_garbage",
    "hangs_up",
    "recovery_hangs",
    "recovery_fails",
    "leaves_daemons",
    "hangs_when_thawed",
    "kills_its_keeper",
)

VOID_UNDER_KILL = {
    "ends_early": "b1 was never reached: it ended with exit status 0",
    "hangs": "b1 was never reached: it hung (waiting for a bus)",
    "segfaults": "b1 was never reached: it ended with signal 11",
    "exits_3": "b1 was never reached: it ended with exit status 3",
    "leaves": "b1 was never reached: it ended with exit status 1 (no charge today)",
    "runs_out_of_memory": "b1 was never reached: it ended with exit status 1 (MemoryError)",
    "raises": "b1 was never reached: it ended with exit status 1 "
    "(ValueError: twelve is not a colour)",
    "speaks_for_another": "b1 was never reached: it ended with exit status 1 "
    "(crashpoint.inside.client.BenchRefused: no open trial for this token)",
    "lends_its_token": "the barrier was announced by a process outside the subject's tree",
    "invents_a_point": "b1 was never reached: it ended with exit status 1 "
    "(crashpoint.inside.client.BenchRefused: no point 'b9'; there are b0, b1, b2)",
    "goes_round_and_round": "b1 was never reached: it hung",
    "persists_early": "at b1 the completion should be not recorded, "
    "the engine's store had it recorded",
    "skips_the_effect": "at b1 the effect should have crossed 1 times, the ledger held 0",
    "refunds": "an effect nobody expected: 'refund'",
    "kills_its_keeper": "the bench: the keeper of a subject died",
    "recovery_hangs": "the recovery hung: no end within the time limit (waiting for a bus)",
    "recovery_fails": "the recovery failed: it ended with exit status 1 "
    "(ValueError: twelve is not a colour)",
    "does_nothing": "the engine does not call the run finished",
    "says_no_number": "the bench: what the entry returned cannot be kept: "
    "not JSON that can be kept: NaN is not JSON",
    "says_too_deep": "the bench: what the entry returned cannot be kept: "
    "not JSON that can be kept: nested deeper than 64",
    "says_a_book": "the bench: what the entry returned has more than 1048576 bytes",
    "cannot_be_read": "the bench: OSError: [Errno 5] the disk is on fire",
    "answers_oddly": "the bench: what was seen cannot be kept: "
    "no canonical JSON: Object of type set is not JSON serializable",
    "does_not_answer": "the bench: acceptance.broken_program:refuse did not answer: "
    "it ended with exit status 1 (RuntimeError: nobody is at home)",
}
VOID_UNDER_FREEZE = {
    "hangs_up": "the thawed process hung: no end within the time limit",
    "hangs_when_thawed": "the thawed process hung: no end within the time limit "
    "(waiting for a bus)",
} | {
    name: VOID_UNDER_KILL[name] for name in ("recovery_hangs", "recovery_fails", "kills_its_keeper")
}
NO_REFERENCE = {
    "reference_fails": "an uncrashed run is VOID (the run failed: it ended with exit status 1 "
    "(ValueError: twelve is not a colour))",
    "reference_skips": "an uncrashed run passes b0, b1",
    "reference_repeats": "an uncrashed run passes b0, b0, b1, b2",
}
MEASURED = set(NAMES) - VOID_UNDER_KILL.keys() - NO_REFERENCE.keys()


class Measured:
    """One run of misbehaving rows, at b1, once each."""

    def __init__(self, rows, fault):
        with nothing_left() as place:
            script = str(TESTS / "acceptance" / "broken_adapter.py")
            options = ("--rows", ",".join(rows), "--limit", LIMIT_S, "--fault", fault)
            self.done = place.run(script, *options, "--out", str(place.out))
            self.document = json.loads((place.out / "broken.json").read_bytes())
            self.verified = verify(place.out / "broken.json")
        self.trials = {trial["row"]: trial for trial in self.document["trials"]}

    def verdict(self, row):
        return self.trials[row]["verdict"]


@pytest.fixture(scope="module")
def killed():
    return Measured(NAMES, "kill")


@pytest.fixture(scope="module")
def frozen():
    return Measured(FREEZE, "freeze")


@pytest.mark.parametrize(("row", "why"), VOID_UNDER_KILL.items())
def test_void_with_its_reason(killed, row, why):
    verdict = killed.verdict(row)
    assert (verdict["effects"], verdict["void"]) == ("VOID", why)


@pytest.mark.parametrize(("row", "why"), VOID_UNDER_FREEZE.items())
def test_void_with_its_reason_under_freeze(frozen, row, why):
    verdict = frozen.verdict(row)
    assert (verdict["effects"], verdict["void"]) == ("VOID", why)


@pytest.mark.parametrize("row", sorted(MEASURED))
def test_measured_all_the_same(killed, row):
    verdict = killed.verdict(row)
    assert (verdict["effects"], verdict["ending"]) == ("DUPLICATED", "ENDED")


@pytest.mark.parametrize("row", sorted(set(FREEZE) - VOID_UNDER_FREEZE.keys()))
def test_measured_all_the_same_under_freeze(frozen, row):
    verdict = frozen.verdict(row)
    assert (verdict["effects"], verdict["ending"]) == ("DUPLICATED", "ENDED")


@pytest.mark.parametrize(
    ("row", "ending"),
    [
        ("hangs", "STUCK"),
        ("recovery_hangs", "STUCK"),
        ("does_nothing", "STUCK"),
        ("recovery_fails", "NO_START"),
    ],
)
def test_how_it_ended(killed, row, ending):
    assert killed.verdict(row)["ending"] == ending


def test_a_wrong_result_stands_beside_the_outcome(killed):
    assert killed.verdict("goes_wrong")["result"] == "WRONG"
    assert killed.verdict("well")["result"] == "SAME"
    assert (
        "goes_wrong at b1: 1 recovered runs report another result (WRONG)"
        in (killed.document["summary"]["findings"])
    )


@pytest.mark.parametrize("run", ["killed", "frozen"])
def test_daemons_of_a_recovery_are_counted(run, request):
    trials = request.getfixturevalue(run).trials
    assert trials["leaves_daemons"]["seen"]["recovery"] == {
        "how": "ended",
        "code": 0,
        "leftovers": 2,
    }


@pytest.mark.parametrize("run", ["killed", "frozen"])
def test_the_fault_reaches_the_whole_tree(run, request):
    trials = request.getfixturevalue(run).trials
    assert trials["well"]["seen"]["fired"]["pids"] == 1
    assert trials["starts_processes"]["seen"]["fired"]["pids"] == 7
    assert trials["runs_threads"]["seen"]["fired"]["pids"] >= 1


def test_points_without_end_are_not_kept_without_end(killed):
    assert killed.trials["goes_round_and_round"]["seen"]["passed"] == ["b0"] * 1000


@pytest.mark.parametrize(("row", "why"), NO_REFERENCE.items())
def test_without_a_reference_nothing_is_run(killed, row, why):
    assert row not in killed.trials
    assert f"{row}: {why}; its trials are not run" in killed.done.stderr.splitlines()
    assert f"{row}: {why}" in killed.document["summary"]["findings"]


@pytest.mark.parametrize("run", ["killed", "frozen"])
def test_the_run_ends_uncertified_without_a_traceback(run, request):
    measured = request.getfixturevalue(run)
    assert measured.done.returncode == 3
    assert "Traceback" not in measured.done.stdout + measured.done.stderr


@pytest.mark.parametrize("run", ["killed", "frozen"])
def test_its_evidence_holds(run, request):
    assert request.getfixturevalue(run).verified.says.endswith("exit 3")
