"""Every row is registered once, declares what S1 says, and has a control that is red at b1."""

import pytest

from crashpoint.adapters.registry import adapters, all_rows, find_row
from crashpoint.model import S1_ROWS, Barrier, FaultKind, Outcome, predict


def test_names_are_used_once():
    names = [row.name for adapter in adapters().values() for row in adapter.rows()]
    assert len(names) == len(set(names)) == len(all_rows())


def test_rows_of_s1_declare_what_s1_says():
    registered = all_rows()
    assert {name: registered[name] for name in S1_ROWS if name in registered} == {
        name: declared for name, declared in S1_ROWS.items() if name in registered
    }
    assert {"r_null", "r_dup", "r_lost", "r_idem", "r_diverge", "r_twophase"} <= registered.keys()
    assert {"r_lg_naive", "r_lg_idem", "r_lg_nondet", "r_lg_twophase"} <= registered.keys()


@pytest.mark.parametrize("name", sorted(all_rows()))
def test_a_row_is_found_by_its_name(name):
    adapter, row = find_row(name)
    assert row.name == name
    assert row in adapter.rows()
    assert adapters()[adapter.name] is adapter


@pytest.mark.parametrize("name", ["", "r_nul", "R_DUP", "r_dup "])
def test_no_other_name_is_found(name):
    assert find_row(name) is None


@pytest.mark.parametrize("name", sorted(adapters()))
@pytest.mark.parametrize("fault", FaultKind)
def test_a_control_is_predicted_red_at_b1(name, fault):
    adapter = adapters()[name]
    control = find_row(adapter.control)
    assert control is not None
    assert control[0] is adapter
    assert predict(control[1].declaration, Barrier.B1, fault) != Outcome.EXACTLY_ONCE
    assert adapter.effects
