"""The service against its tables, and states as values: keeping one is copying it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crashpoint.ledger import daemon
from crashpoint.receivers import server, service
from crashpoint.receivers.dialect import KEYED, KEYED_CHECKED, KEYED_RETENTION, LOOKUP, NOTHING
from crashpoint.receivers.ops import Refusal
from crashpoint.receivers.service import State, fold, handle
from unit.receivers.scripts import SCRIPTS, request
from unit.receivers.walk import difference

DIALECTS = (KEYED, replace(KEYED_RETENTION, retention_s=3.0), KEYED_CHECKED, LOOKUP, NOTHING)


@pytest.mark.parametrize("name", SCRIPTS)
def test_script(name):
    assert difference(service, *SCRIPTS[name]) is None


keys = st.sampled_from([None, "k1", "k2"])
requests = st.one_of(
    st.builds(lambda key, title: request("file", key, title=title), keys, st.sampled_from("ab")),
    st.builds(lambda key, n: request("comment", key, issue=n, text="t"), keys, st.integers(1, 4)),
    st.builds(lambda text: request("search", text=text), st.sampled_from("ab")),
    st.just(request("file")),
)


@given(
    st.sampled_from(DIALECTS),
    st.lists(st.tuples(st.integers(0, 30), requests), max_size=30),
)
def test_a_state_is_the_same_however_others_went_on(dialect, steps):
    """Go on from any earlier state at each step; the path to a state alone decides what it is."""
    states, paths = [State.empty("tracker")], [()]
    for now_s, (choice, sent) in enumerate(steps):
        start = choice % len(states)
        states.append(handle(states[start], sent, dialect, now_s).state)
        paths.append((*paths[start], (now_s, sent)))
    for state, path in zip(states, paths, strict=True):
        alone = State.empty("tracker")
        for now_s, sent in path:
            alone = handle(alone, sent, dialect, now_s).state
        assert state == alone
        assert state.key() == alone.key()
        assert state.acted == alone.acted == len(list(state.crossings()))
        assert fold("tracker", state.records) == state
        for key in ("k1", "k2"):
            assert state.first_under(key, None, 99) == alone.first_under(key, None, 99)


def shares(module) -> bool:
    """Whether a late request costs no more than an early one: along one line nothing is copied."""
    first = state = module.State.empty("tracker")
    for n in range(500):
        state = module.handle(state, request("file", f"k{n}", title="a"), KEYED, 0.0).state
    branched = module.handle(first, request("file", title="b"), KEYED, 0.0).state
    is_shared = state._log is first._log is not branched._log
    return is_shared and (len(state.records), len(branched.records)) == (500, 1)


def refuses(module) -> bool:
    """Whether what would have acted, or been read, is refused as it should be."""
    before = module.State.empty("tracker")
    handled = module.handle(before, request("file", "k", title="a"), KEYED, 2.0)
    state, reply, record = module.refuse(handled, before, Refusal(503, "not now"))
    read = module.handle(before, request("search", text="a"), KEYED, 2.0)
    return (
        reply == {"status": 503, "body": {"error": "not now"}}
        and record == {**handled.record, "did": "refused", "id": None}
        and (state.records, state.acted) == ([record], 0)
        and handled.state.records == [handled.record]
        and module.refuse(read, before, Refusal(503, "not now")) is read
    )


def folds(module) -> bool:
    """Whether questions are counted, and records that lack something are noticed."""
    state = module.State.empty("tracker")
    (record,) = module.handle(state, request("file", title="a"), KEYED, 0.0).state.records
    asked = {**record, "did": "asked"}
    if module.fold("tracker", [asked, record, asked]).asked != 2:
        return False
    for name in ("op", "args", "key", "did", "id", "at_s"):
        lacking = {member: record[member] for member in record if member != name}
        try:
            module.fold("tracker", [lacking])
        except module.NotARecord as error:
            if f"lacks {name!r}" not in str(error):
                return False
        else:
            return False
    return True


def stands(module=service) -> bool:
    """Whether a module does all that the tables and the rules above say."""
    scripts = (difference(module, *script) is None for script in SCRIPTS.values())
    return all(scripts) and shares(module) and refuses(module) and folds(module)


@pytest.mark.parametrize("rule", [shares, refuses, folds])
def test_rule(rule):
    assert rule(service)


def test_what_a_caller_does_to_its_request_afterwards_changes_nothing():
    sent = request("file", "k", title="a")
    state = handle(State.empty("tracker"), sent, KEYED, 0.0).state
    sent["args"]["title"] = "b"
    state.records.clear()
    assert [record["args"]["title"] for record in state.records] == ["a"]


def test_a_receiver_that_does_not_exist():
    with pytest.raises(KeyError):
        State.empty("mailer")


def test_states_are_no_numbers_and_cannot_be_hashed():
    assert State.empty("tracker") != 7
    assert State.empty("tracker") != State.empty("payments")
    with pytest.raises(TypeError):
        hash(State.empty("tracker"))


def test_a_record_reaches_the_ledger_in_one_piece():
    """What `server.REQUEST_MAX` promises: the ledger reads a whole line at once."""
    around = {
        "token": "f" * 32,
        "append": {
            "receiver": "payments",
            "did": "repeated",
            "id": 10**15,
            "at_s": 1.7e9 + 0.123456,
        },
    }
    room = len(repr(around)) + 200
    assert server.REQUEST_MAX + room < daemon.READ_SIZE
