"""The key of an effect: the same in every language, and no two calls share one."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from outlive.core.keys import call_name, effect_key

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "effect_keys.json").read_bytes())

texts = st.text(st.characters(codec="utf-8"), max_size=20) | st.text("ab:#!0123456789", max_size=8)


@pytest.mark.parametrize("vector", VECTORS["keys"], ids=lambda vector: vector["what"])
def test_each_vector_has_the_key_that_it_says(vector):
    assert effect_key(vector["run"], vector["call"]) == vector["key"]
    assert hashlib.sha256(vector["framed"].encode()).hexdigest()[:32] == vector["key"]


def test_no_two_vectors_share_a_key():
    keys = [vector["key"] for vector in VECTORS["keys"]]
    assert len(set(keys)) == len(keys)


@given(one=st.tuples(texts, texts), other=st.tuples(texts, texts))
def test_two_calls_share_a_key_only_if_they_are_one(one, other):
    assume(one != other)
    assert effect_key(*one) != effect_key(*other)


@given(run=texts, whole=texts, cut=st.integers(0, 20))
def test_where_the_run_ends_and_the_call_begins_matters(run, whole, cut):
    one, other = (run + whole[:cut], whole[cut:]), (run, whole)
    assume(one != other)
    assert effect_key(*one) != effect_key(*other)


@given(run=texts, call=texts)
def test_a_key_is_32_hexadecimal_digits_and_the_same_again(run, call):
    key = effect_key(run, call)
    assert len(key) == 32
    assert set(key) <= set("0123456789abcdef")
    assert effect_key(run, call) == key


def test_a_call_is_named_by_step_occurrence_and_trial():
    assert call_name("refund", 0) == "refund#0"
    assert call_name("refund", 12) == "refund#12"
    assert call_name("refund", 0, 1) == "refund#0!1"


ids = st.text(st.characters(exclude_characters="#!", codec="utf-8"), min_size=1)


@given(
    one=st.tuples(ids, st.integers(0, 99), st.integers(0, 9)),
    other=st.tuples(ids, st.integers(0, 99), st.integers(0, 9)),
)
def test_two_calls_have_one_name_only_if_they_are_one(one, other):
    assume(one != other)
    assert call_name(*one) != call_name(*other)
