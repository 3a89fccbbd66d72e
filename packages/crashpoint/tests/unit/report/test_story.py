import json

import pytest

from crashpoint.ledger.chain import Chain, Kind
from crashpoint.report import story
from unit.report.documents import CHARGE, MS, OTHER, START_NS, document, reference, trial


def told(run) -> str:
    return "\n".join(f"{step.kind}: {step.says}" for step in story.steps(run))


def test_a_trial_killed_between_effect_and_persist():
    run = trial("r_dup", "b1", 3, "DUPLICATED")
    assert (
        told(run)
        == f"""\
start: The first process passed b0, announced b1 and waited there.
attempt: Attempt 1: charge {json.dumps(CHARGE, sort_keys=True)} without a key, so it crossed \
(pid 100, 2.00 ms before the fault).
fault: The fault hit 1 process at b1 within 3.00 ms; the first died of signal 9.
ledger: At that moment the effect had crossed 1 time.
store: The engine's own store did not hold the effect's completion: steps [0, 1].
attempt: Attempt 2: charge {json.dumps(CHARGE, sort_keys=True)} without a key, so it crossed \
(pid 101, 26.0 ms after the fault).
recovery: Recovery by a process that had the engine imported (hot) ended with exit status 0, \
40.0 ms after the fault.
engine: The engine calls the run finished with result {{"paid": true}}, the same as an uncrashed \
run's (keys []).
seal: 4 records sealed under head {run["head"]}.
verdict: DUPLICATED. Ending ENDED, result SAME, basis KILLED."""
    )


def test_an_uncrashed_run_has_no_fault():
    first, *_ = story.steps(reference("r_dup"))
    assert first.says == (
        "The first process passed b0, b1, b2 and ended with exit status 0; no fault was injected."
    )


def test_an_attempt_under_a_known_key_changed_nothing():
    run = trial("r_twophase", "b1", actions=[("k1", CHARGE), ("k1", OTHER), ("k2", OTHER)])
    says = [step.says for step in story.steps(run) if step.kind == "attempt"]
    assert "under key k1, new to the ledger, so it crossed (" in says[0]
    assert (
        "under key k1, which the ledger knew, so it changed nothing;"
        " its action is another than the first one's (" in says[1]
    )
    assert "under key k2, new to the ledger" in says[2]


def test_what_a_thawed_process_did_comes_after_the_recovery():
    run = trial("r_dup", "b0", 0, "DUPLICATED", recover_us=22_500)
    run["seen"] |= {
        "first": {"how": "frozen", "code": None},
        "thawed": {"how": "ended", "code": 0},
    }
    kinds = [step.kind for step in story.steps(run)]
    assert kinds == [
        *("start", "fault", "ledger", "store", "attempt", "recovery", "attempt", "thaw"),
        *("engine", "seal", "verdict"),
    ]
    assert "at b0 within 3.00 ms; the first was stopped." in told(run)
    assert "The frozen process was let go on and ended with exit status 0." in told(run)


@pytest.mark.parametrize(
    ("process", "says"),
    [
        ({"how": "hung", "code": None, "said": ""}, "(hot) hung."),
        ({"how": "ended", "code": 1, "said": "boom\x1b["}, "exit status 1, saying boom\\x1b[."),
        ({"how": "ended", "code": -11, "said": ""}, "(hot) died of signal 11."),
        ({"how": "ended", "code": 0, "leftovers": [7]}, "0, leaving processes behind ([7])."),
    ],
)
def test_endings_of_a_recovery(process, says):
    run = trial("r_dup", "b0", 0, "VOID")
    run["seen"]["recovery"] = process
    del run["seen"]["recover_us"]
    (recovery,) = (step.says for step in story.steps(run) if step.kind == "recovery")
    assert recovery.endswith(says)


def test_a_trial_whose_barrier_was_never_reached():
    run = trial("r_dup", "b1", 0, "VOID", void="b1 was never reached")
    run["seen"] = {"mode": "hot", "passed": [], "first": {"how": "ended", "code": 0}}
    assert (
        told(run)
        .split("\n")[0]
        .endswith("started and ended with exit status 0; no fault was injected.")
    )
    assert told(run).endswith(
        "verdict: VOID: b1 was never reached. Ending STUCK, result NOT_CHECKED, basis KILLED."
    )


def test_a_trial_in_which_the_bench_failed_before_anything_was_seen():
    run = trial("r_dup", "b1", 0, "VOID")
    run["seen"] = {"mode": "hot", "passed": [], "error": "ProbeFailed: no answer"}
    assert "start: The first process started.\n" in told(run)
    assert "bench: The bench itself failed: ProbeFailed: no answer." in told(run)


def test_a_fault_that_missed_is_told():
    run = trial("r_dup", "b0")
    run["seen"]["fired"] |= {"announced_within": False, "pids": 2}
    run["seen"]["first"] = {"how": "crashed", "code": 0}
    run["seen"]["final"] |= {"finished": False}
    run["verdict"] |= {"result": "WRONG"}
    assert (
        "The fault hit 2 processes at b0 within 3.00 ms; the one that announced it was NOT among"
        " them; the first died of signal none (exit status 0)." in told(run)
    )
    assert "does not call the run finished" in told(run)
    assert "which is NOT an uncrashed run's" in told(run)


def test_resends_and_what_receivers_noted_are_told():
    chain = Chain("t", b"key")
    chain.append(Kind.OPEN, START_NS)
    peer = {"pid": 5, "uid": 0, "gid": 0, "start": 1}
    common = {"id": "i", "effect": "e", "key": None, "action": 1, "digest": "", "mismatch": False}
    chain.append(Kind.ATTEMPT, START_NS + 10 * MS, peer=peer, **common)
    chain.append(Kind.RESEND, START_NS + 11 * MS, peer=peer, **common)
    chain.append(Kind.WITNESS, START_NS + 12 * MS, peer=peer, body={"paid": 1})
    chain.append(Kind.SEAL, START_NS + 13 * MS, note="")
    run = trial("r_dup", "b0") | {"records": chain.records, "count": 5}
    assert "resend: The same request was sent once more" in told(run)
    assert 'witness: The receiver noted {"paid": 1} (pid 5, 12.0 ms after the fault).' in told(run)


def test_long_values_are_cut_and_say_how_long_they_are():
    run = trial("r_dup", "b0", actions=[(None, "x" * 1000)])
    (attempt,) = (step.says for step in story.steps(run) if step.kind == "attempt")
    assert "x" * 400 + "... (1000 characters)" in attempt
    assert "x" * 401 not in attempt


def test_a_line_holds_the_judgement():
    assert story.line(trial("r_dup", "b1", 3, "DUPLICATED")).split() == [
        *("r_dup.b1.0003", "DUPLICATED", "ENDED", "SAME", "hot", "40.0", "ms")
    ]
    void = trial("r_dup", "b1", 3, "VOID", void="it\nhung")
    del void["seen"]["recover_us"]
    assert story.line(void).split() == [
        *("r_dup.b1.0003", "VOID", "STUCK", "NOT_CHECKED", "hot", "-", "it\\nhung")
    ]


def test_json_is_the_whole_trial_on_a_line():
    run = trial("r_dup", "b1")
    assert json.loads(story.as_json(run)) == run
    assert "\n" not in story.as_json(run)


def test_records_follow_the_story():
    lines = story.records(trial("r_dup", "b1", 0, "DUPLICATED")).split("\n")
    gap = lines.index("")
    assert [line.split()[0] for line in lines[:gap]][:3] == ["start", "attempt", "fault"]
    assert [line.split()[::2][0:2] for line in lines[gap + 1 :]] == [
        *(["0", "open"], ["1", "attempt"], ["2", "attempt"], ["3", "seal"])
    ]


def test_every_trial_of_a_document_has_a_story():
    made = document(["r_null", "r_lost", "r_diverge"])
    for run in (*made["references"], *made["trials"]):
        assert story.steps(run)[-1].kind == "verdict"
