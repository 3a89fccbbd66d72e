import pytest

from crashpoint.model import (
    S1_ROWS,
    Declaration,
    Determinism,
    Durability,
    EffectMode,
    PersistOrder,
    RowConflictError,
    with_s1_rows,
)
from unit.model.tables import CONTROLS, KILL, LIKE_CONTROL

OTHER = Declaration(
    Durability.NONE, PersistOrder.BEFORE_EFFECT, EffectMode.TWOPHASE, Determinism.DRAWN
)


def test_the_26_names_in_their_order():
    assert [*S1_ROWS] == [*KILL]
    assert len(S1_ROWS) == 26


@pytest.mark.parametrize("name", KILL)
def test_each_row_declares_what_its_control_does(name):
    control = name if name in CONTROLS else LIKE_CONTROL[name.rpartition("_")[2]]
    assert (*S1_ROWS[name].words().values(),) == CONTROLS[control]


def test_the_rows_are_read_only():
    with pytest.raises(TypeError):
        S1_ROWS["r_null"] = OTHER  # type: ignore[index]
    with pytest.raises(TypeError):
        del S1_ROWS["r_null"]  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        S1_ROWS.clear()  # type: ignore[attr-defined]


def test_others_come_after_the_26_and_leave_them_alone():
    others = {"r_new": OTHER, "r_dup": S1_ROWS["r_dup"]}
    joined = with_s1_rows(others)
    assert [*joined] == [*S1_ROWS, "r_new"]
    assert {name: joined[name] for name in S1_ROWS} == dict(S1_ROWS)
    with pytest.raises(TypeError):
        joined["r_new"] = OTHER  # type: ignore[index]
    others["r_late"] = OTHER
    assert "r_late" not in joined


def test_a_row_that_takes_one_of_the_26_names_is_an_error_with_both_declarations():
    with pytest.raises(RowConflictError) as refused:
        with_s1_rows({"r_new": OTHER, "r_dup": OTHER})
    text = str(refused.value)
    assert "r_dup" in text
    assert "none, before-effect, twophase, drawn" in text
    assert "journaled, after-effect, naive, reproducible" in text
