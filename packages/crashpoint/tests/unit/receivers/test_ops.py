"""What is wrong with a request: every kind of argument, at its edges."""

import inspect

import pytest

from crashpoint.receivers import ops
from crashpoint.receivers.ops import RECEIVERS, Refusal, checked, checked_change, shown
from unit.receivers.scripts import request

GOOD = [
    ("tracker", request("file", title="a"), {"title": "a", "body": ""}),
    ("tracker", request("file", title="t" * 255, body="b" * 8192), None),
    ("tracker", request("file", title="\0", body="\U0001f9ea"), None),
    ("tracker", request("comment", issue=10**15, text="t" * 8192), None),
    ("tracker", request("search", text="s"), {"text": "s"}),
    ("tracker", request("find"), {"op": None, "args": None, "key": None, "age_s": 0.0}),
    ("tracker", request("find", key="k", age_s=1.5), None),
    ("tracker", request("find", op="file", args={}, age_s=0), None),
    ("tracker", {"op": "file", "args": {"title": "a"}, "key": object()}, None),
    ("payments", request("charge", order="o", cents=1), None),
    ("payments", request("charge", order="o", cents=1, currency="USD"), None),
    ("payments", request("refund", charge=1, cents=1), {"charge": 1, "cents": 1}),
    ("payments", request("look_up", order="o"), {"order": "o"}),
]
BAD = [
    ("tracker", None, "a request is an object"),
    ("tracker", [], "a request is an object"),
    ("tracker", "file", "a request is an object"),
    ("tracker", {"op": "file", "args": {"title": "a"}, "id": 1}, "a request is an object"),
    ("tracker", {}, "no operation None"),
    ("tracker", request("charge"), "no operation 'charge'; it has file, comment, search, find"),
    ("tracker", request(["file"], title="a"), "no operation ['file']"),
    ("tracker", {"op": "file"}, "args must be an object, not None"),
    ("tracker", {"op": "file", "args": [("title", "a")]}, "args must be an object"),
    ("tracker", request("file"), "title is missing"),
    ("tracker", request("file", title=""), "title must be a string of 1 to 255"),
    ("tracker", request("file", title="t" * 256), "title must be"),
    ("tracker", request("file", title=b"a"), "title must be"),
    ("tracker", request("file", title="\ud800"), "without lone surrogates, not '\\ud800'"),
    ("tracker", request("file", title="a", body="b" * 8193), "body must be a string of 0 to 8192"),
    ("tracker", request("file", title="a", body=None), "body must be"),
    ("tracker", request("file", title="a", label="x"), "unknown argument 'label'; it takes title"),
    ("tracker", request("comment", issue=0, text="t"), "issue must be a whole number from 1"),
    ("tracker", request("comment", issue=10**15 + 1, text="t"), "issue must be"),
    ("tracker", request("comment", issue=True, text="t"), "issue must be"),
    ("tracker", request("comment", issue=1.0, text="t"), "issue must be"),
    ("tracker", request("comment", issue="1", text="t"), "issue must be"),
    ("tracker", request("comment", issue=1, text=""), "text must be a string of 1 to 8192"),
    ("tracker", request("find", args=[]), "args must be an object"),
    ("tracker", request("find", age_s=-0.5), "age_s must be a number of seconds"),
    ("tracker", request("find", age_s=True), "age_s must be"),
    ("tracker", request("find", age_s="1"), "age_s must be"),
    ("tracker", request("find", age_s=float("nan")), "age_s must be"),
    ("tracker", request("find", age_s=float("inf")), "age_s must be"),
    ("payments", request("charge", order="o", cents=1, currency="eur"), "three capital letters"),
    ("payments", request("charge", order="o", cents=1, currency="EURO"), "three capital letters"),
    ("payments", request("charge", order="o", cents=1, currency="EU1"), "three capital letters"),
    ("payments", request("charge", order="o", cents=1, currency="\u00c4\u00d6\u00dc"), "capital"),
    ("payments", request("charge", order="o", cents=1, currency=["E", "U", "R"]), "capital"),
]
KEYS = {"k": True, "k" * 255: True, "\0": True, "": False, "k" * 256: False, 7: False}


def stands(module=ops) -> bool:
    """Whether a module says of each request what the tables say."""
    for receiver, sent, args in GOOD:
        op, found = module.checked(receiver, sent)
        if op.name != sent["op"] or (
            args is not None and (found, list(found)) != (args, list(args))
        ):
            return False
    for receiver, sent, says in BAD:
        try:
            module.checked(receiver, sent)
        except module.Refusal as refusal:
            if refusal.status != 400 or says not in str(refusal):
                return False
        else:
            return False
    try:
        module.checked_change("tracker", request("search", text="a"))
    except module.Refusal as refusal:
        if "search changes nothing" not in str(refusal):
            return False
    else:
        return False
    changing = [
        op.name for ops_of in module.RECEIVERS.values() for op in ops_of.values() if op.changes
    ]
    return (
        changing == ["file", "comment", "charge", "refund"]
        and module.checked_change("tracker", GOOD[0][1])[0].name == "file"
        and all(module.KEY.fits(key) is fits for key, fits in KEYS.items())
        and module.shown("x" * 58) == repr("x" * 58)
        and len(module.shown("x" * 59)) == 63
        and module.KEY.required
        and not module.RECEIVERS["tracker"]["file"].params["body"].required
    )


def test_the_tables():
    assert stands()


@pytest.mark.parametrize(("receiver", "sent", "args"), GOOD, ids=range(len(GOOD)))
def test_good_requests_come_with_all_their_arguments(receiver, sent, args):
    op, found = checked(receiver, sent)
    assert list(found) == list(op.params)
    assert args is None or found == args


@pytest.mark.parametrize(("receiver", "sent", "says"), BAD, ids=range(len(BAD)))
def test_bad_requests_are_told_in_one_printable_sentence(receiver, sent, says):
    with pytest.raises(Refusal) as refused:
        checked(receiver, sent)
    assert says in str(refused.value)
    assert str(refused.value).isascii()
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 250


def test_what_is_asked_about_must_change_something():
    with pytest.raises(Refusal, match="search changes nothing"):
        checked_change("tracker", request("search", text="a"))


def test_a_value_is_shown_short():
    assert shown("a\nb") == "'a\\nb'"
    assert len(shown(list(range(10**4)))) < 80


def test_schemas_say_what_the_tests_say():
    for of_receiver in RECEIVERS.values():
        for op in of_receiver.values():
            for name, param in op.params.items():
                assert isinstance(param.schema["type"], str), (op.name, name)
                if not param.required and param.default is not None:
                    assert param.fits(param.default)
    assert inspect.getdoc(ops) is not None
