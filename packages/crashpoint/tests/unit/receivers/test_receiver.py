"""A receiver as it lives: faults, what is under way, and a ledger that will not keep a record."""

from typing import Any, NoReturn

import pytest

from crashpoint.receivers import receiver
from crashpoint.receivers.client import ReceiverTimeout
from crashpoint.receivers.dialect import KEYED, KEYED_CHECKED, NOTHING, Dialect
from crashpoint.receivers.person import TRUTHFUL
from crashpoint.receivers.service import State
from unit.receivers.scripts import request

FILE = request("file", "k", title="a")


class Died(Exception):
    """The receiver's process has ended."""


def died() -> NoReturn:
    raise Died


def opened(module, dialect: Dialect = KEYED, keep=None) -> Any:
    kept: list[Any] = []
    made = module.Receiver(
        State.empty("tracker"),
        dialect,
        now_s=lambda: 0.0,
        keep=keep or kept.append,
        die=died,
        person=TRUTHFUL,
    )
    made.kept = kept
    return made


def dids(made: Any) -> list[str]:
    assert made.kept == made.state.records
    return [record["did"] for record in made.kept]


def outcome(made: Any, sent: Any = FILE) -> Any:
    """The status of an answer, or the kind of its absence."""
    try:
        return made.send(sent)["status"]
    except (ReceiverTimeout, Died) as error:
        return type(error)


def plays(module, dialect: Dialect, faults: Any, expected: Any, recorded: Any) -> bool:
    made = opened(module, dialect)
    for nth, fault in faults.items():
        made.inject(module.ReceiverFault(fault), nth)
    found = [outcome(made) for _ in expected]
    return (found, dids(made)) == (expected, recorded)


def stands(module=receiver) -> bool:
    """Whether a module's receiver does what a receiver does."""
    lost, crash = ReceiverTimeout, Died
    return (
        plays(module, KEYED, {}, [200, 200], ["acted", "repeated"])
        and plays(module, KEYED, {1: "error"}, [500, 200], ["refused", "acted"])
        and plays(module, KEYED, {2: "error"}, [200, 500, 200], ["acted", "refused", "repeated"])
        and plays(module, KEYED, {1: "lost-reply"}, [lost, 200], ["acted", "repeated"])
        and plays(module, NOTHING, {1: "lost-reply"}, [lost, 200], ["acted", "acted"])
        and plays(module, KEYED, {1: "receiver-crash"}, [crash, 200], ["acted", "repeated"])
        and plays(module, KEYED, {1: "late-accept"}, [lost, 200], ["acted"])
        and plays(module, KEYED_CHECKED, {1: "late-accept"}, [lost, 409, 409], ["refused"] * 2)
        and _settles(module)
        and _tells_keys_apart(module)
        and _knows_who_is_under_way(module)
        and _counts_changes_only(module)
        and _asks(module)
    )


def _settles(module) -> bool:
    made = opened(module, KEYED_CHECKED)
    made.inject(module.ReceiverFault.LATE_ACCEPT)
    made.inject(module.ReceiverFault.LATE_ACCEPT, 2)
    first, second = outcome(made), outcome(made, request("file", title="b"))
    if (first, second) != (ReceiverTimeout, ReceiverTimeout) or made.late != (
        FILE,
        request("file", title="b"),
    ):
        return False
    if made.settle() != 2 or made.settle() != 0:
        return False
    return outcome(made) == 200 and dids(made) == ["acted", "acted", "repeated"]


def _tells_keys_apart(module) -> bool:
    made = opened(module, KEYED_CHECKED)
    made.inject(module.ReceiverFault.LATE_ACCEPT)
    outcome(made)
    others = (
        request("file", "l", title="a"),
        request("file", title="a"),
        request("search", text="a"),
        request("find", key="k"),
    )
    return [outcome(made, other) for other in others] == [200] * 4


def _knows_who_is_under_way(module) -> bool:
    made = opened(module, KEYED_CHECKED)
    if made.in_progress(FILE) is not None:
        return False
    made.under_way.append(FILE)
    said = made.send(FILE)
    if said["status"] != 409 or "file: a request with this key is still in progress" not in str(
        said
    ):
        return False
    unchecked = opened(module, KEYED)
    unchecked.under_way.append(FILE)
    return outcome(unchecked) == 200 and made.perform(FILE)["status"] == 200


def _counts_changes_only(module) -> bool:
    made = opened(module)
    made.inject(module.ReceiverFault.ERROR, 2)
    sent = (request("search", text="a"), request("file"), None, FILE, FILE)
    if [outcome(made, each) for each in sent] != [200, 400, 400, 200, 500]:
        return False
    made.inject(module.ReceiverFault.ERROR)
    return [outcome(made) for _ in range(2)] == [500, 200]


def _asks(module) -> bool:
    made = opened(module)
    question = request("file", title="a")
    said = [made.ask(question)["body"], made.send(FILE)["body"], made.ask(question)["body"]]
    return said == [{"happened": False}, {"issue": 1}, {"happened": True}] and dids(made) == [
        "asked",
        "acted",
        "asked",
    ]


def test_the_receiver_stands():
    assert stands()


def test_what_is_not_kept_has_not_happened():
    class Full(Exception):
        pass

    def refuse(_record):
        raise Full

    made = opened(receiver, keep=refuse)
    for call in (made.send, made.ask):
        with pytest.raises(Full):
            call(FILE if call == made.send else request("file", title="a"))
    assert made.state.records == []
    made._keep = made.kept.append
    assert made.send(FILE) == {"status": 200, "body": {"issue": 1}}


def test_a_record_is_kept_before_a_crash_or_a_lost_reply():
    for fault in (receiver.ReceiverFault.RECEIVER_CRASH, receiver.ReceiverFault.LOST_REPLY):
        made = opened(receiver)
        made.inject(fault)
        assert outcome(made) in (Died, ReceiverTimeout)
        assert dids(made) == ["acted"]
