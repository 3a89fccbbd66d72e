"""The interpreter alone: each rule of its small world, without a word from `predict`."""

import pytest

from crashpoint.model import S1_ROWS, Barrier, Durability, FaultKind, every_declaration, interpret
from crashpoint.model.interpreter import World, run_to
from unit.model.tables import FREEZE, KILL


@pytest.mark.parametrize("name", KILL)
def test_the_26_by_3_under_kill(name):
    observed = tuple(interpret(S1_ROWS[name], barrier, FaultKind.KILL) for barrier in Barrier)
    assert observed == KILL[name]


@pytest.mark.parametrize("name", FREEZE)
def test_the_controls_under_freeze(name):
    observed = tuple(interpret(S1_ROWS[name], barrier, FaultKind.FREEZE) for barrier in Barrier)
    assert observed == FREEZE[name]


def test_each_attempt_without_a_key_crosses():
    world = World()
    for action in (0, 0, 1):
        world.attempt(None, action)
    assert [action for _, action in world.crossed] == [0, 0, 1]


def test_an_attempt_under_a_known_key_is_no_crossing_even_with_another_action():
    world = World()
    for key, action in ((7, 0), (7, 1), (8, 1), (7, 2)):
        world.attempt(key, action)
    assert world.crossed == [(7, 0), (8, 1)]


def test_the_store_keeps_an_identity_from_b0_on_if_it_keeps_anything():
    for d in every_declaration():
        process, world = run_to(d, Barrier.B0)
        kept = process.identity if d.durability is Durability.JOURNALED else None
        assert process.identity is not None
        assert world.identity == kept
