"""Every single break of a rule of the service, or of what it takes, is caught by the tables."""

from collections.abc import Callable
from inspect import getsource
from types import ModuleType

import pytest

from crashpoint.receivers import ops, person, receiver, service
from crashpoint.receivers.dialect import Keys
from unit.mutate import load, mutants
from unit.receivers import test_ops, test_person, test_receiver, test_service

MEMBERS = {
    "Keys": tuple(Keys.__members__),
    "ReceiverFault": tuple(receiver.ReceiverFault.__members__),
}


CHECKS: dict[ModuleType, Callable[[ModuleType], bool]] = {
    service: test_service.stands,
    ops: test_ops.stands,
    person: test_person.stands,
    receiver: test_receiver.stands,
}


@pytest.mark.parametrize("module", CHECKS, ids=lambda module: module.__name__.rpartition(".")[2])
def test_each_mutant_is_caught(module):
    source, stands = getsource(module), CHECKS[module]
    assert stands(load(source, name=module.__name__))
    alive = []
    made = mutants(source, members=MEMBERS)
    for description, mutated in made:
        try:
            survives = stands(load(mutated, name=module.__name__))
        except Exception:  # noqa: BLE001  a mutant may fail as it likes
            continue
        if survives:
            alive.append(description)
    assert len(made) > 10
    assert alive == []
