"""The forgery attempts fail, and each succeeds as soon as the guard that it is after is broken."""

import json
import sys
from pathlib import Path

import pytest

from crashpoint.adversaries import forger, reflexive
from crashpoint.adversaries.reflexive import NOT_CLAIMED, Result

CARELESS = str(Path(__file__).with_name("careless_daemon.py"))


def findings(capsys, exit_code):
    assert reflexive.main(["--json"]) == exit_code
    printed = json.loads(capsys.readouterr().out)
    return {finding["name"]: finding for finding in printed}


def test_every_attempt_fails(capsys):
    found = findings(capsys, 0)
    tried = len(forger.ATTEMPTS) + 2 * len(forger.EDITS) + 1
    assert len(found) == tried + len(NOT_CLAIMED)
    results = [finding["result"] for finding in found.values()]
    assert results.count(Result.NOT_CLAIMED) == len(NOT_CLAIMED)
    assert Result.FORGED not in results
    assert {Result.REFUSED, Result.HARMLESS, Result.CAUGHT} <= set(results)
    assert all(finding["why"] for finding in found.values())


def only(monkeypatch, *attempts, edits=()):
    """Leave out all but these; what is not tried is still printed."""
    kept = {name: reflexive.ATTEMPTS[name] for name in attempts}
    monkeypatch.setattr(reflexive, "ATTEMPTS", kept)
    monkeypatch.setattr(forger, "EDITS", {name: forger.EDITS[name] for name in edits})


@pytest.mark.parametrize(
    ("guard", "attempt"),
    [
        ("peers_are_all_alike", "known_id_other_process"),
        ("peers_are_all_alike", "known_id_many_processes"),
        ("any_known_id_is_a_resend", "known_id_other_action"),
        ("any_known_id_is_a_resend", "known_id_other_process"),
        ("any_token_will_do", "other_tokens"),
        ("any_token_will_do", "read_over_witness"),
        ("unknown_members_are_let_through", "another_peer"),
        ("the_request_says_who_it_is_from", "another_peer_in_the_action"),
        ("the_answer_says_whether_it_was_new", "tell_new_from_known"),
        ("known_keys_are_not_written_down", "a_record_in_the_text"),
        ("the_seal_takes_no_token_away", "after_the_seal"),
        ("the_invoke_socket_takes_the_controllers_words", "admin_over_invoke"),
        ("what_cannot_be_read_is_the_end", "crash_it"),
        ("there_is_another_way_in", "look_around"),
    ],
)
def test_a_broken_guard_is_noticed(capsys, monkeypatch, guard, attempt):
    monkeypatch.setattr(reflexive, "COMMAND", [sys.executable, CARELESS, guard])
    only(monkeypatch, attempt)
    (found, *_) = findings(capsys, 1).values()
    assert found["result"] == Result.FORGED, found


def test_a_daemon_that_believes_any_file_is_noticed(capsys, monkeypatch):
    careless = [sys.executable, CARELESS, "any_file_is_believed"]
    monkeypatch.setattr(reflexive, "COMMAND", careless)
    only(monkeypatch, edits=["cut_the_tail"])
    found = findings(capsys, 1)
    assert found["Cut the tail off the file, daemon dead"]["result"] == Result.FORGED


def test_an_oracle_that_checks_nothing_is_noticed(capsys, monkeypatch):
    monkeypatch.setattr("crashpoint.ledger.oracle.fault_in", lambda *_, **__: None)
    only(monkeypatch)
    found = findings(capsys, 1)
    assert found["Each character of a sealed chain, each cut"]["result"] == Result.FORGED


def test_without_a_place_to_run_it_says_so(capsys, monkeypatch):
    monkeypatch.setenv("TMPDIR", "/no/such/folder")
    assert reflexive.main([]) == 2
    assert "cannot make a temporary folder" in capsys.readouterr().err
