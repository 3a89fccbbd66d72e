"""The encoding that everything is hashed over: hand-made vectors, and what holds of every value."""

import hmac
import json
import math
from enum import StrEnum
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crashpoint.canonical import (
    DEPTH_MAX,
    GENESIS,
    NotCanonical,
    canonical,
    digest,
    digest_of,
    link,
    mac,
    parse,
    same,
)

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "canonical.json").read_bytes())

text = st.text(st.characters(codec="utf-8"))
leaves = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
) | text
values = st.recursive(
    leaves, lambda inner: st.lists(inner) | st.dictionaries(text, inner), max_leaves=30
)


class Word(StrEnum):
    ONE = "one"


@pytest.mark.parametrize("vector", VECTORS["accepted"], ids=lambda vector: vector["what"])
def test_each_vector_reads_and_encodes_as_it_says(vector):
    value = parse(vector["text"])
    assert canonical(value) == vector["canonical"].encode()
    assert digest(value) == digest_of(canonical(value)) == vector["sha256"]
    assert parse(vector["text"].encode()) == parse(vector["canonical"]) == value


@pytest.mark.parametrize("vector", VECTORS["refused"], ids=lambda vector: vector["what"])
def test_each_refused_text_is_refused_with_a_reason(vector):
    for given_text in (vector["text"], vector["text"].encode()):
        with pytest.raises(NotCanonical, match=r"not JSON that can be kept: .+"):
            parse(given_text)


@pytest.mark.parametrize(
    "raw", [b"\xff", b'"\xed\xa0\x80"', b'"\xc0\x80"', "1".encode("utf-16"), '"\ud800"', "\udfff"]
)
def test_text_that_is_no_utf8_is_refused(raw):
    with pytest.raises(NotCanonical):
        parse(raw)


def cycle() -> list[object]:
    inner: list[object] = []
    inner.append([inner])
    return inner


def nested(levels: int) -> object:
    return [] if levels == 1 else [nested(levels - 1)]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (math.nan, "Out of range"),
        (math.inf, "Out of range"),
        ([-math.inf], "Out of range"),
        ("\ud800", "surrogates"),
        ({"\udead": 1}, "surrogates"),
        (b"bytes", "bytes"),
        ({1, 2}, "set"),
        (object(), "object"),
        ({1: 2}, "key 1 is not a string"),
        ({"a": [{None: 2}]}, "key None is not a string"),
        ({"a": 1, 2: 3}, "key 2 is not a string"),
        ({True: 2}, "key True is not a string"),
        (cycle(), "nested deeper than 128"),
        (nested(DEPTH_MAX + 1), "nested deeper than 128"),
        ((nested(DEPTH_MAX),), "nested deeper than 128"),
    ],
)
def test_each_refused_value_is_refused_with_a_reason(value, reason):
    with pytest.raises(NotCanonical, match=reason):
        canonical(value)


def test_what_can_be_encoded_can_be_read_at_every_depth():
    assert parse(canonical(nested(DEPTH_MAX))) == nested(DEPTH_MAX)


def test_a_lower_limit_of_depth_can_be_asked_for():
    assert parse("[[1]]", depth_max=2) == [[1]]
    with pytest.raises(NotCanonical, match=r"nested deeper than 1$"):
        parse("[[1]]", depth_max=1)


def test_tuples_are_lists_and_enumerated_words_are_strings():
    assert canonical((1, (2,))) == b"[1,[2]]"
    assert canonical({Word.ONE: Word.ONE}) == b'{"one":"one"}'


@settings(deadline=None)
@given(values)
def test_what_is_read_back_is_what_was_encoded(value):
    again = parse(canonical(value))
    assert again == value
    assert canonical(again) == canonical(value)


@settings(deadline=None)
@given(st.dictionaries(text, values), st.randoms(use_true_random=False))
def test_the_order_of_keys_does_not_matter(value, random):
    names = list(value)
    random.shuffle(names)
    assert canonical({name: value[name] for name in names}) == canonical(value)


@settings(deadline=None)
@given(values, values)
def test_two_values_have_one_encoding_only_when_they_are_the_same(left, right):
    assert (canonical(left) == canonical(right)) == (repr_of(left) == repr_of(right))


def repr_of(value: object) -> object:
    """Equality that tells 1 from 1.0 from True and 0.0 from -0.0."""
    if isinstance(value, dict):
        return {name: repr_of(member) for name, member in value.items()}
    if isinstance(value, list):
        return [repr_of(member) for member in value]
    return type(value), repr(value)


@settings(deadline=None)
@given(st.binary() | text)
def test_reading_raises_nothing_but_its_own_error(raw):
    try:
        value = parse(raw)
    except NotCanonical:
        return
    assert parse(canonical(value)) == value


def test_the_hash_of_a_record_leaves_out_itself_and_the_mac():
    record = VECTORS["record"]["record"]
    key = bytes.fromhex(VECTORS["record"]["key"])
    assert record["prev"] == GENESIS
    assert link(record) == record["hash"]
    assert mac(key, "record", record["hash"]) == record["mac"]
    assert link({**record, "mac": "", "hash": ""}) == record["hash"]
    for name in set(record) - {"hash", "mac"}:
        assert link({**record, name: "other"}) != record["hash"]


@pytest.mark.parametrize("vector", VECTORS["macs"], ids=lambda vector: vector["purpose"])
def test_a_mac_is_hmac_sha256_over_purpose_and_parts(vector):
    key = bytes.fromhex(vector["key"])
    assert mac(key, vector["purpose"], *vector["parts"]) == vector["hmac_sha256"]


@settings(deadline=None)
@given(st.binary(max_size=64), text, st.lists(text))
def test_a_mac_is_what_the_library_makes(key, purpose, parts):
    content = "".join(f"{len(part)}:{part}" for part in [purpose, *parts])
    expected = hmac.new(key, content.encode(), "sha256").hexdigest()
    assert mac(key, purpose, *parts) == expected


def test_parts_do_not_run_into_each_other():
    key = b"k" * 32
    assert (
        len({mac(key, "a", "bc"), mac(key, "ab", "c"), mac(key, "abc"), mac(key, "a", "b", "c")})
        == 4
    )


def test_hex_digests_are_compared_whole():
    assert same("ab" * 32, "ab" * 32)
    assert not same("ab" * 32, "ab" * 31 + "ac")
    assert not same("ab" * 32, "ab" * 31)
