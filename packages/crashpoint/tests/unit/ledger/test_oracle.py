"""What a sealed chain comes to, and that every forgery of one is VOID."""

import copy
import json
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from crashpoint.canonical import NotCanonical, canonical, parse
from crashpoint.ledger.chain import SealedChain, trial_key
from crashpoint.ledger.oracle import count, crossings
from crashpoint.model import Outcome
from unit.ledger.chains import KEY, RUN_KEY, believed, rehashed, sealed
from unit.ledger.outcomes import CASES

WANTED = ("charge", "mail")

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.floats(allow_nan=False)
    | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
attempts = st.fixed_dictionaries(
    {
        "effect": st.sampled_from(WANTED),
        "key": st.none() | st.sampled_from(["k", "l"]),
        "action": st.integers(0, 2) | st.just({"amount": 1, "to": ["x"]}),
        "id": st.sampled_from(["i", "j", "m", "n"]),
        "pid": st.sampled_from([2, 3]),
    }
)
chains = st.lists(attempts, min_size=1, max_size=6).map(lambda found: sealed(*found))


@pytest.mark.parametrize("name", CASES)
def test_what_a_chain_comes_to(name):
    case = CASES[name]
    counted = count(sealed(*case.attempts), case.wanted)
    assert counted.outcome is case.outcome
    found = {
        effect: (e.outcome, e.crossings, e.attempts, e.mismatches)
        for effect, e in counted.effects.items()
    }
    assert found == case.effects


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name].effects])
def test_crossings_are_counted_in_an_open_list_too(name):
    case = CASES[name]
    counted = sum(crossed for _, crossed, _, _ in case.effects.values())
    assert crossings(sealed(*case.attempts).records[:-1]) == counted


def test_every_outcome_is_among_the_cases():
    assert {case.outcome for case in CASES.values()} == set(Outcome)


def test_a_stranger_is_named():
    counted = count(sealed({"effect": "mail"}), ["charge"])
    assert counted.void == "an effect nobody expected: 'mail'"


def is_void(chain: SealedChain) -> bool:
    counted = count(chain, WANTED)
    assert (counted.outcome is Outcome.VOID) == (counted.void is not None)
    assert "\n" not in (counted.void or "")
    return counted.outcome is Outcome.VOID


@settings(deadline=None)
@given(chains)
def test_what_the_desk_wrote_is_never_void(chain):
    assert not is_void(chain)
    again = replace(chain, records=[parse(canonical(record)) for record in chain.records])
    assert not is_void(again)


def differs(left: object, right: object) -> bool:
    return json.dumps(left, sort_keys=True) != json.dumps(right, sort_keys=True)


@st.composite
def paths(draw, value):
    """A way to some place inside a JSON value, as the keys and indices that lead there."""
    path = []
    while isinstance(value, dict | list) and value and (not path or draw(st.booleans())):
        step = draw(
            st.sampled_from(sorted(value) if isinstance(value, dict) else range(len(value)))
        )
        path.append(step)
        value = value[step]
    return path


@st.composite
def edited(draw):
    """A chain in which one place of one record holds another value, is gone, or is new."""
    chain = draw(chains)
    records = copy.deepcopy(chain.records)
    at = draw(st.integers(0, len(records) - 1))
    *way, last = draw(paths(records[at]))
    place = records[at]
    for step in way:
        place = place[step]
    how = draw(st.sampled_from(["change", "remove", "add"]))
    if how == "change":
        place[last] = draw(json_values.filter(lambda value: differs(value, place[last])))
    elif how == "remove":
        del place[last]
    elif isinstance(place, dict):
        name = draw(st.text(max_size=5).filter(lambda name: name not in place))
        place[name] = draw(json_values)
    else:
        place.append(draw(json_values))
    return chain, records


@st.composite
def damaged_in_order(draw):
    """A chain whose list of records is shorter, longer or in another order."""
    chain = draw(chains)
    records = list(chain.records)
    at = draw(st.integers(0, len(records) - 1))
    match draw(st.sampled_from(["delete", "swap", "tail", "head", "double", "insert", "splice"])):
        case "delete":
            del records[at]
        case "swap":
            other = draw(st.integers(0, len(records) - 1).filter(lambda other: other != at))
            records[at], records[other] = records[other], records[at]
        case "tail":
            records = records[:at]
        case "head":
            records = records[at + 1 :]
        case "double":
            records.insert(draw(st.integers(0, len(records))), records[at])
        case "insert":
            records.insert(at, draw(st.sampled_from(stranger(draw).records)))
        case "splice":
            foreign = stranger(draw).records
            records = [*records[:at], *foreign[draw(st.integers(0, len(foreign) - 1)) :]]
    assume(records != list(chain.records))
    return chain, records


def stranger(draw) -> SealedChain:
    """A valid chain of another trial, or of one under this name and key with other content."""
    return sealed(
        *draw(st.lists(attempts, max_size=3)), trial=draw(st.sampled_from(["t-2", "t-1"]))
    )


forged = edited() | damaged_in_order()


@settings(deadline=None)
@given(forged)
def test_whatever_is_done_to_the_records_is_void(found):
    chain, records = found
    assume(differs(records, list(chain.records)))
    assert is_void(replace(chain, records=records))


@settings(deadline=None)
@given(chains, st.data())
def test_any_one_character_changed_in_the_file_is_void(chain, data):
    lines = [canonical(record).decode() for record in chain.records]
    n = data.draw(st.integers(0, len(lines) - 1))
    at = data.draw(st.integers(0, len(lines[n]) - 1))
    other = data.draw(st.sampled_from('0123456789abcdef" {}[]:,-.eE'))
    lines[n] = lines[n][:at] + other + lines[n][at + 1 :]
    try:
        records = [parse(line) for line in lines]
    except NotCanonical:
        return
    assume(differs(records, list(chain.records)))
    assert is_void(replace(chain, records=records))


def rehashable(records: list[object]) -> bool:
    """Whether there is a hash of each: an infinity in one has none."""
    try:
        canonical(records)
    except NotCanonical:
        return False
    return bool(records) and all(isinstance(record, dict) for record in records)


@settings(deadline=None)
@given(forged, st.binary(min_size=32, max_size=32))
def test_rehashed_by_somebody_without_the_key_is_void_even_with_a_head_that_fits(found, key):
    chain, records = found
    assume(key != KEY and rehashable(records))
    records = rehashed(records, key)
    assert is_void(replace(chain, records=records))
    assert is_void(believed(chain, records))


@settings(deadline=None)
@given(forged)
def test_rehashed_by_somebody_with_the_key_is_void_by_the_controllers_head(found):
    chain, records = found
    assume(rehashable(records))
    records = rehashed(records)
    assume(differs(records, list(chain.records)))
    assert is_void(replace(chain, records=records))


@settings(deadline=None)
@given(chains)
def test_rehashed_with_another_trials_key_is_void(chain):
    records = rehashed(chain.records, trial_key(RUN_KEY, "t-2"))
    assert is_void(believed(chain, records))


@settings(deadline=None)
@given(st.lists(json_values, max_size=4) | json_values, json_values, json_values)
def test_records_that_are_anything_at_all_are_void_and_raise_nothing(records, head, number):
    assert is_void(SealedChain("t-1", KEY, head, number, records))


@settings(deadline=None)
@given(edited())
def test_an_edit_that_everybody_signs_raises_nothing(found):
    chain, records = found
    assume(rehashable(records))
    count(believed(chain, rehashed(records)), WANTED)


def test_the_key_decides():
    chain = sealed({"effect": "charge"})
    assert not is_void(chain)
    assert is_void(replace(chain, key=bytes(32)))
    assert is_void(replace(chain, trial="t-2"))


def test_a_chain_survives_being_written_down_and_read_back():
    chain = sealed({"effect": "charge", "action": {"a": [1.5, None, "é"]}})
    again = json.loads(json.dumps(chain.records))
    assert not is_void(replace(chain, records=again))
