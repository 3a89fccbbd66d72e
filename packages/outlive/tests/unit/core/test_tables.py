"""The machines: what holds of each table, and what outlive promises about them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from enum import StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.core import tables
from outlive.core.machine import Illegal, Machine
from outlive.core.tables import (
    APPROVAL,
    EFFECT,
    MACHINES,
    RUN,
    SESSION,
    STEP,
    WAIT,
    Approval,
    Effect,
    EffectEvent,
    Run,
    RunEvent,
    Session,
    SessionEvent,
    Step,
    StepEvent,
    Wait,
)

every_machine = pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)


def states(machine: Machine) -> list[StrEnum]:
    return list(type(machine.first))


def events(machine: Machine) -> list[StrEnum]:
    """All that its enum names, whether the table has them or not."""
    used = next(event for followers in machine.table.values() for event in followers)
    return list(type(used))


def reachable(machine: Machine, start: StrEnum, without: frozenset[StrEnum] = frozenset()) -> set:
    """States that follow, sooner or later, by other events than those."""
    seen, todo = {start}, [start]
    while todo:
        for event, then in machine.table[todo.pop()].items():
            if event not in without and then not in seen:
                seen.add(then)
                todo.append(then)
    return seen


# --- every table --------------------------------------------------------------------------------


def test_no_table_is_forgotten():
    there = [value for value in vars(tables).values() if isinstance(value, Machine)]
    assert sorted(machine.name for machine in MACHINES) == sorted(one.name for one in there)
    assert len({machine.name for machine in MACHINES}) == len(MACHINES)


@every_machine
def test_every_state_has_a_row_and_every_event_a_place(machine):
    assert set(machine.table) == set(states(machine))
    used = {event for followers in machine.table.values() for event in followers}
    assert used == set(events(machine))
    assert {then for row in machine.table.values() for then in row.values()} <= set(machine.table)


@every_machine
def test_every_state_can_come_to_be(machine):
    assert reachable(machine, machine.first) == set(states(machine))


@every_machine
def test_from_every_state_there_is_a_way_to_an_end(machine):
    for state in states(machine):
        assert any(machine.final(one) for one in reachable(machine, state)), state


@every_machine
def test_what_the_table_does_not_know_is_illegal_and_changes_nothing(machine):
    before = {state: dict(row) for state, row in machine.table.items()}
    for state in [*states(machine), "no state"]:
        for event in [*events(machine), "no event"]:
            if event in machine.table.get(state, {}):
                assert machine.allows(state, event)
                assert machine.after(state, event) is machine.table[state][event]
            else:
                assert not machine.allows(state, event)
                with pytest.raises(Illegal, match=f"{machine.name}: {event} .* in state {state}"):
                    machine.after(state, event)
    assert {state: dict(row) for state, row in machine.table.items()} == before


@every_machine
def test_a_table_cannot_be_changed(machine):
    assert isinstance(machine.table, Mapping)
    with pytest.raises(TypeError):
        machine.table[machine.first] = {}
    with pytest.raises(TypeError):
        machine.table[machine.first][events(machine)[0]] = machine.first


@every_machine
def test_a_final_state_is_left_by_nothing(machine):
    for state in states(machine):
        if machine.final(state):
            assert not any(machine.allows(state, event) for event in events(machine))


@every_machine
@given(data=st.data())
def test_whatever_happens_only_what_the_table_says_follows(machine, data):
    state = machine.first
    for event in data.draw(st.lists(st.sampled_from(events(machine)), max_size=40)):
        was, followers = state, machine.table[state]
        with contextlib.suppress(Illegal):
            state = machine.after(state, event)
        assert state is followers.get(event, was)


FINAL = {
    "run": {Run.COMPLETED, Run.FAILED, Run.CANCELLED},
    "step": {Step.DONE, Step.FAILED},
    "wait": {Wait.MET, Wait.TIMED_OUT, Wait.DROPPED},
    "approval": {Approval.APPROVED, Approval.DENIED, Approval.EXPIRED, Approval.WITHDRAWN},
    "effect": {Effect.SETTLED},
    "session": {Session.ENDED},
}


@every_machine
def test_the_final_states_are_those_and_no_other(machine):
    assert {state for state in states(machine) if machine.final(state)} == FINAL[machine.name]


def test_an_unknown_state_is_final_of_no_machine():
    with pytest.raises(Illegal, match="run has no state 'gone'"):
        RUN.final("gone")


# --- runs and their cancellation ----------------------------------------------------------------


def after_cancel() -> set[Run]:
    """Where a run can get once `cancelling` is committed, as the engine moves it.

    A run that was to be cancelled is never resumed to run on: it goes on being cancelled.
    """
    return reachable(RUN, Run.CANCELLING, frozenset({RunEvent.RESUME}))


def test_a_cancel_is_possible_until_the_run_has_ended():
    assert all(
        RUN.allows(state, RunEvent.CANCEL) != RUN.final(state)
        for state in Run
        if state is not Run.CANCELLING
    )


def test_after_a_cancel_only_cancelled_or_failed_is_possible():
    assert {state for state in after_cancel() if RUN.final(state)} == {Run.CANCELLED, Run.FAILED}
    assert not RUN.allows(Run.CANCELLING, RunEvent.COMPLETE)
    assert not any(RUN.allows(state, RunEvent.COMPLETE) for state in after_cancel())


def test_a_run_that_nobody_cancelled_is_not_cancelled():
    assert Run.CANCELLED not in reachable(RUN, RUN.first, frozenset({RunEvent.CANCEL}))


def test_only_a_run_that_somebody_has_completes_or_fails_by_itself():
    assert {s for s in Run if RUN.allows(s, RunEvent.COMPLETE)} == {Run.RUNNING}
    assert {s for s in Run if RUN.allows(s, RunEvent.FAIL)} == {Run.RUNNING, Run.CANCELLING}


def test_only_a_claim_makes_a_run_running():
    ways = {
        (s, e) for s, row in RUN.table.items() for e, then in row.items() if then is Run.RUNNING
    }
    assert ways == {(Run.QUEUED, RunEvent.CLAIM)}


def test_a_run_that_needs_attention_moves_only_by_a_person():
    assert set(RUN.table[Run.NEEDS_ATTENTION]) == {RunEvent.RESUME, RunEvent.CANCEL}


def test_a_run_can_be_parked_wherever_it_is():
    open_states = {state for state in Run if not RUN.final(state)} - {Run.NEEDS_ATTENTION}
    assert {state for state in Run if RUN.allows(state, RunEvent.PARK)} == open_states


# --- steps --------------------------------------------------------------------------------------


def test_a_finished_step_never_runs_again():
    for state in (Step.DONE, Step.FAILED, Step.REFUSED):
        assert Step.RUNNING not in reachable(STEP, state)


def test_what_happened_and_cannot_be_stored_is_only_ended_by_what_a_person_supplies():
    assert dict(STEP.table[Step.REFUSED]) == {StepEvent.SUPPLY: Step.DONE}


def test_a_process_may_die_in_any_state_of_a_step_that_is_not_recorded_as_ended():
    for state in (Step.ASKED, Step.RUNNING, Step.RETRYING):
        assert not STEP.final(STEP.after(state, StepEvent.DIE))


# --- waits and approvals ------------------------------------------------------------------------


@pytest.mark.parametrize("machine", [WAIT, APPROVAL], ids=lambda machine: machine.name)
def test_what_is_open_is_decided_once(machine):
    assert all(machine.final(then) for then in machine.table[machine.first].values())
    assert len(set(machine.table[machine.first].values())) == len(states(machine)) - 1


# --- effects ------------------------------------------------------------------------------------


def test_an_effect_is_marked_before_anything_else():
    assert dict(EFFECT.table[Effect.PLANNED]) == {EffectEvent.MARK: Effect.MARKED}


def test_an_unknown_outcome_is_settled_before_anything_is_sent_again():
    assert dict(EFFECT.table[Effect.UNKNOWN]) == {EffectEvent.SETTLE: Effect.SETTLING}
    sends = {s for s, row in EFFECT.table.items() for then in row.values() if then is Effect.MARKED}
    assert sends == {Effect.PLANNED, Effect.SETTLING, Effect.ASKING, Effect.ABSENT}


def test_from_settling_on_there_is_a_way_without_sending_and_one_without_asking():
    for event in (EffectEvent.RESEND, EffectEvent.ASK):
        assert Effect.SETTLED in reachable(EFFECT, Effect.UNKNOWN, frozenset({event}))


def test_a_new_trial_needs_known_absence_or_a_person():
    assert {s for s in Effect if EFFECT.allows(s, EffectEvent.REPEAT)} == {
        Effect.ABSENT,
        Effect.ASKING,
    }
    assert {s for s, row in EFFECT.table.items() if Effect.ABSENT in row.values()} == {
        Effect.MARKED,  # a definite refusal
        Effect.SETTLING,  # a look-up whose absence is final
        Effect.ASKING,  # a person
    }


# --- sessions -----------------------------------------------------------------------------------


def test_a_closed_socket_is_suspicion_and_not_death():
    assert SESSION.after(Session.LIVE, SessionEvent.DISCONNECT) is Session.SUSPECT
    assert SESSION.after(Session.SUSPECT, SessionEvent.RETURN) is Session.LIVE
    enders = {e for row in SESSION.table.values() for e, then in row.items() if SESSION.final(then)}
    assert enders == {SessionEvent.GOODBYE, SessionEvent.CONFIRM_DEATH, SessionEvent.LAPSE}


def test_a_session_that_ended_never_comes_back():
    assert reachable(SESSION, Session.ENDED) == {Session.ENDED}
