"""Every single break of the rules is caught by the literal tables and the two opinions agreeing."""

import importlib
from collections.abc import Callable
from inspect import getsource
from itertools import product
from types import ModuleType

import pytest

from crashpoint.model import (
    S1_ROWS,
    Barrier,
    Determinism,
    Durability,
    EffectMode,
    FaultKind,
    Outcome,
    PersistOrder,
    Takeover,
    every_declaration,
    interpret,
    predict,
)
from unit.model.tables import FREEZE, KILL
from unit.mutate import load, mutants

EVERY_ENUM = {
    enum.__name__: tuple(enum.__members__)
    for enum in (
        Outcome,
        Barrier,
        FaultKind,
        Durability,
        PersistOrder,
        EffectMode,
        Determinism,
        Takeover,
    )
}
DECIDING = {name: EVERY_ENUM[name] for name in EVERY_ENUM if name != "Barrier"}


def prediction_stands(module: ModuleType) -> bool:
    kill = {name: tuple(module.predict(S1_ROWS[name], b) for b in Barrier) for name in KILL}
    freeze = {
        name: tuple(module.predict(S1_ROWS[name], b, FaultKind.FREEZE) for b in Barrier)
        for name in FREEZE
    }
    return (kill, freeze) == (KILL, FREEZE) and all(
        module.predict(d, barrier, fault) is interpret(d, barrier, fault)
        for d, barrier, fault in product(every_declaration(), Barrier, FaultKind)
    )


def interpreter_stands(module: ModuleType) -> bool:
    return all(
        module.interpret(d, barrier, fault) is predict(d, barrier, fault)
        for d, barrier, fault in product(every_declaration(), Barrier, FaultKind)
    )


def source_of(module: str) -> str:
    return getsource(importlib.import_module(f"crashpoint.model.{module}"))


def survives(stands: Callable[[ModuleType], bool], mutated: str) -> bool:
    try:
        return stands(load(mutated))
    except (KeyError, UnboundLocalError):
        return False


# In the interpreter the place of b2 is the end of the program whatever stands there, so moving
# barriers changes no outcome: there they are checked by `test_predict`, where the process stops.
@pytest.mark.parametrize(
    ("module", "stands", "members"),
    [
        ("predict", prediction_stands, EVERY_ENUM),
        ("interpreter", interpreter_stands, DECIDING),
    ],
)
def test_no_mutant_survives(module, stands, members):
    source = source_of(module)
    assert stands(load(source)), "the checks must pass on the original"
    broken = mutants(source, members=members)
    survivors = [what for what, mutated in broken if survives(stands, mutated)]
    assert survivors == []


@pytest.mark.parametrize("outcome", ["EXACTLY_ONCE", "DUPLICATED", "DIVERGED", "LOST"])
def test_each_outcome_of_the_rules_is_among_the_broken(outcome):
    descriptions = [what for what, _ in mutants(source_of("predict"))]
    assert any(f"Outcome.{outcome} -> " in what for what in descriptions)


def test_each_kind_of_break_is_among_the_broken():
    descriptions = "\n".join(what for what, _ in mutants(source_of("predict")))
    for kind in ("Eq -> NotEq", "And -> Or", "Or -> And", "dropped not", "True -> False"):
        assert kind in descriptions
    for rule in ("first and second", "not first and (not second)", "_same_key_again(d)"):
        assert f"dropped: if {rule}" in descriptions
