import ast
import importlib
from dataclasses import replace
from inspect import getsource
from itertools import product

import pytest

from crashpoint.model import (
    S1_ROWS,
    AtFault,
    Barrier,
    Durability,
    FaultKind,
    Outcome,
    PersistOrder,
    Takeover,
    at_fault,
    every_declaration,
    interpret,
    predict,
)
from crashpoint.model.interpreter import run_to
from unit.model.tables import FREEZE, FREEZE_ENDED, KILL

EVERYWHERE = [*product(every_declaration(), Barrier)]


@pytest.mark.parametrize("name", KILL)
def test_the_26_by_3_under_kill(name):
    assert tuple(predict(S1_ROWS[name], barrier) for barrier in Barrier) == KILL[name]
    for barrier in Barrier:
        assert predict(S1_ROWS[name], barrier) is predict(S1_ROWS[name], barrier, FaultKind.KILL)


@pytest.mark.parametrize("name", FREEZE)
def test_the_controls_under_freeze(name):
    predicted = tuple(predict(S1_ROWS[name], barrier, FaultKind.FREEZE) for barrier in Barrier)
    assert predicted == FREEZE[name]


@pytest.mark.parametrize("fault", FaultKind)
def test_total_and_never_void(fault):
    outcomes = {predict(d, barrier, fault) for d, barrier in EVERYWHERE}
    assert {type(outcome) for outcome in outcomes} == {Outcome}
    assert outcomes == set(Outcome) - {Outcome.VOID}


def test_nothing_is_lost_to_a_freeze_where_the_thawed_process_goes_on():
    while_alive = [(d, b) for d, b in EVERYWHERE if d.takeover is Takeover.WHILE_ALIVE]
    outcomes = {predict(d, barrier, FaultKind.FREEZE) for d, barrier in while_alive}
    assert outcomes == set(Outcome) - {Outcome.VOID, Outcome.LOST}


@pytest.mark.parametrize("name", FREEZE_ENDED)
def test_a_freeze_of_what_is_ended_before_it_is_taken_over(name):
    declared = replace(S1_ROWS[name], takeover=Takeover.AFTER_DEATH)
    predicted = tuple(predict(declared, barrier, FaultKind.FREEZE) for barrier in Barrier)
    assert predicted == FREEZE_ENDED[name]
    # Under kill the first is dead whatever is declared.
    assert [predict(declared, b) for b in Barrier] == [predict(S1_ROWS[name], b) for b in Barrier]


@pytest.mark.parametrize("fault", FaultKind)
def test_the_second_interpreter_agrees_on_the_whole_product(fault):
    disagreed = [
        (d.words(), barrier.value)
        for d, barrier in EVERYWHERE
        if predict(d, barrier, fault) is not interpret(d, barrier, fault)
    ]
    assert disagreed == []


def test_at_fault_is_what_a_stepped_program_finds_there():
    for d, barrier in EVERYWHERE:
        _, world = run_to(d, barrier)
        assert at_fault(d, barrier) == AtFault(bool(world.crossed), world.recorded)


def test_at_fault_says_what_the_barriers_are_named_for():
    for d in every_declaration():
        journaled = d.durability is Durability.JOURNALED
        effect_first = d.persist_order is PersistOrder.AFTER_EFFECT
        assert at_fault(d, Barrier.B0) == (False, False)
        assert at_fault(d, Barrier.B1) == (effect_first, journaled and not effect_first)
        assert at_fault(d, Barrier.B2) == (True, journaled)


def test_at_fault_cannot_be_changed():
    with pytest.raises(AttributeError):
        at_fault(S1_ROWS["r_dup"], Barrier.B1).recorded = True  # type: ignore[misc]


@pytest.mark.parametrize("module", ["predict", "interpreter"])
def test_neither_opinion_sees_names_or_the_other(module):
    tree = ast.parse(getsource(importlib.import_module(f"crashpoint.model.{module}")))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name for name in imported if name and name.startswith("crashpoint")} == {
        "crashpoint.model.declaration",
        "crashpoint.model.words",
    }
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    assert not texts & set(S1_ROWS)
