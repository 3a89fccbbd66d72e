"""Effects are named alike in each run: by content, by what they refer to, without what is drawn."""

import pytest

from crashpoint.inside.points import CHANGES, calls_in
from crashpoint.receivers.dialect import KEYED
from crashpoint.receivers.ops import RECEIVERS
from crashpoint.receivers.service import State, handle
from crashpoint.sweep.effects import REFERENCES, ByContent, name_by_content, seen_in


def records(*requests, receiver="tracker"):
    """What the receiver keeps of (op, args, key)."""
    state = State.empty(receiver)
    for op, args, key in requests:
        request = {"op": op, "args": args} | ({} if key is None else {"key": key})
        handled = handle(state, request, KEYED, 0.0)
        assert handled.reply["status"] == 200, handled.reply
        state = handled.state
    return state.records


def file(title, key=None):
    return "file", {"title": title}, key


def comment(issue, text, key=None):
    return "comment", {"issue": issue, "text": text}, key


def test_operations_that_change_a_receiver_are_known_by_name():
    changing = {name for ops in RECEIVERS.values() for name, op in ops.items() if op.changes}
    assert set(CHANGES) == changing
    assert REFERENCES.keys() <= changing


def test_a_number_stands_for_what_it_was_given_to():
    crossings, _ = seen_in(records(file("A"), file("B"), comment(2, "hi")), name_by_content)
    assert list(crossings) == [
        "file(title='A')",
        "file(title='B')",
        "comment(issue=file(title='B'), text='hi')",
    ]


def test_names_stay_when_a_request_too_many_moves_the_numbers():
    usual, _ = seen_in(records(file("A"), file("B"), comment(2, "hi")), name_by_content)
    moved, _ = seen_in(records(file("A"), file("A"), file("B"), comment(3, "hi")), name_by_content)
    assert moved.keys() == usual.keys()
    assert [len(moved[name]) for name in usual] == [2, 1, 1]
    assert (
        moved["comment(issue=file(title='B'), text='hi')"]
        == usual["comment(issue=file(title='B'), text='hi')"]
    )


def test_refunds_refer_to_charges():
    done = records(
        ("charge", {"order": "o-1", "cents": 5}, None),
        ("refund", {"charge": 1, "cents": 2}, None),
        receiver="payments",
    )
    crossings, _ = seen_in(done, name_by_content)
    assert list(crossings)[1] == (
        "refund(charge=charge(order='o-1', cents=5, currency='EUR'), cents=2)"
    )


def test_a_repeat_is_no_effect_and_one_key_for_two_requests_swallows_the_second():
    done = records(file("A", "k"), file("A", "k"), file("B", "k"), file("B", "k"), file("C", "l"))
    crossings, swallowed = seen_in(done, name_by_content)
    assert list(crossings) == ["file(title='A')", "file(title='C')"]
    assert swallowed == ("file(title='B')",)


def test_a_name_of_the_user_s_decides_what_is_the_same():
    done = records(file("draft 1", "k"), file("draft 2", "k"), comment(1, "x"), comment(1, "y"))
    crossings, swallowed = seen_in(done, lambda op, args: f"{op} {args.get('issue', '')}".strip())
    assert {name: len(actions) for name, actions in crossings.items()} == {
        "file": 1,
        "comment file": 2,
    }
    assert swallowed == ()


def test_arguments_that_differ_between_runs_are_left_out():
    naming = ByContent()
    first = records(file("at 7"), comment(1, "hi"))
    second = records(file("at 8"), comment(1, "hi"))
    assert naming.learn(first, second)
    assert naming.without == {("file", "title")}
    once, again = seen_in(first, naming)[0], seen_in(second, naming)[0]
    assert once.keys() == again.keys() == {"file()", "comment(issue=file(), text='hi')"}
    assert once != again  # what crossed is still told apart
    assert not naming.learn(first, second)


@pytest.mark.parametrize(
    "other", [[file("A")], [file("A"), file("B")], [comment(1, "hi"), file("A")][::-1][:1]]
)
def test_nothing_is_learned_from_runs_with_other_operations(other):
    naming = ByContent()
    assert not naming.learn(records(file("A"), comment(1, "hi")), records(*other))
    assert naming.without == set()


def test_a_reference_is_never_left_out():
    naming = ByContent()
    first = records(file("A"), file("B"), comment(1, "hi"))
    second = records(file("A"), file("B"), comment(2, "hi"))
    assert not naming.learn(first, second)


@pytest.mark.parametrize(
    ("reply", "calls"),
    [
        ([("c1", "file", {"title": "A"}), ["c2", "search", {}]], [("c1", "file")]),
        ({"calls": [{"id": "c1", "tool": "comment", "args": {}}]}, [("c1", "comment")]),
        ([{"type": "tool_use", "id": "t", "name": "refund", "input": {}}], [("t", "refund")]),
        ({"tool_call_id": "x", "function": "charge"}, [("x", "charge")]),
        ([{"id": "c1", "tool": "deploy"}, "file", None, 7], []),
        ({"id": "c1", "function": {"name": "file"}}, []),
        ("file", []),
    ],
)
def test_calls_are_found_in_a_reply_where_they_are_plain(reply, calls):
    assert calls_in(reply) == calls
