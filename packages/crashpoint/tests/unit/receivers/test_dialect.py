"""Dialects: the named ones, what contradicts itself, and text from which an equal one is made."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crashpoint.receivers.dialect import (
    DIALECTS,
    KEYED,
    KEYED_CHECKED,
    KEYED_RETENTION,
    LOOKUP,
    NOTHING,
    Dialect,
    DialectError,
    Keys,
)


def test_the_five_and_what_they_promise():
    assert list(DIALECTS) == ["keyed", "keyed-retention", "keyed-checked", "lookup", "nothing"]
    promises = [(d.keys, d.retention_s is not None, d.lookup) for d in DIALECTS.values()]
    assert promises == [
        (Keys.FOREVER, False, True),
        (Keys.RETENTION, True, True),
        (Keys.CHECKED, False, True),
        (Keys.NONE, False, True),
        (Keys.NONE, False, False),
    ]
    assert [d.visible_within_s > 0 for d in DIALECTS.values()] == [False, False, False, True, False]


@pytest.mark.parametrize("dialect", [KEYED, KEYED_RETENTION, KEYED_CHECKED, LOOKUP, NOTHING])
def test_a_dialect_is_found_by_its_name(dialect):
    assert Dialect.parse(dialect.name) is dialect


@given(
    st.text(),
    st.sampled_from([Keys.RETENTION, Keys.CHECKED]),
    st.floats(0.1, 1e9),
    st.booleans(),
    st.floats(0, 1e9),
)
def test_text_makes_an_equal_one(name, keys, retention_s, lookup, visible_within_s):
    dialect = Dialect(name, keys, retention_s, lookup, visible_within_s)
    assert Dialect.parse(dialect.text()) == dialect
    assert "\n" not in dialect.text()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"keys": Keys.RETENTION}, "retention_s is missing"),
        ({"keys": Keys.RETENTION, "retention_s": 0}, "cannot be 0"),
        ({"keys": Keys.CHECKED, "retention_s": -1}, "cannot be -1"),
        ({"keys": Keys.FOREVER, "retention_s": 5}, "cannot be 5 with keys='forever'"),
        ({"keys": Keys.NONE, "retention_s": 5}, "cannot be 5 with keys='none'"),
        ({"keys": Keys.NONE, "visible_within_s": -1}, "must be 0 or more, not -1"),
    ],
    ids=str,
)
def test_promises_that_contradict_each_other(options, says):
    with pytest.raises(DialectError, match=says):
        Dialect("mine", **options)


@pytest.mark.parametrize(
    "text",
    ["", "polite", "{", "{}", '{"keys": "some"}', '{"name": "x", "keys": "none", "more": 1}', "[]"],
)
def test_text_that_is_no_dialect(text):
    with pytest.raises(DialectError):
        Dialect.parse(text)
