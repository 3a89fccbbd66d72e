from dataclasses import FrozenInstanceError, replace

import pytest

from crashpoint.model import (
    Declaration,
    DeclarationError,
    Determinism,
    Durability,
    EffectMode,
    PersistOrder,
    Takeover,
    every_declaration,
)

SOME = Declaration(
    Durability.JOURNALED, PersistOrder.AFTER_EFFECT, EffectMode.TWOPHASE, Determinism.DRAWN
)


def test_every_declaration_is_the_whole_product_once():
    every = every_declaration()
    assert len(every) == len(set(every)) == 2 * 2 * 3 * 2 * 2


def test_words_are_the_printed_ones_in_the_order_of_the_fields():
    assert [*SOME.words().items()] == [
        ("durability", "journaled"),
        ("persist_order", "after-effect"),
        ("effect_mode", "twophase"),
        ("determinism", "drawn"),
    ]
    assert {type(word) for word in SOME.words().values()} == {str}


def test_the_takeover_is_a_word_where_it_is_not_the_first_answer():
    after_death = replace(SOME, takeover=Takeover.AFTER_DEATH)
    assert after_death.words() == SOME.words() | {"takeover": "after-death"}
    assert replace(after_death, takeover=Takeover.WHILE_ALIVE) == SOME


def test_a_declaration_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        SOME.durability = Durability.NONE  # type: ignore[misc]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("durability", "journalled"),
        ("persist_order", "after-effect"),
        ("effect_mode", Durability.NONE),
        ("determinism", None),
        ("takeover", "after-death"),
    ],
)
def test_anything_but_the_fields_own_enum_is_refused_with_value_and_remedy(field, value):
    with pytest.raises(DeclarationError) as refused:
        replace(SOME, **{field: value})
    text = str(refused.value)
    assert field in text
    assert repr(value) in text
    assert f"{type(getattr(SOME, field)).__name__}.{getattr(SOME, field).name}" in text
