"""Plays a script to a service and says where it first differs from what the script says."""

from types import ModuleType
from typing import Any

from crashpoint.receivers.dialect import Dialect
from unit.receivers.scripts import Step

__all__ = ["difference"]


def difference(
    service: ModuleType, receiver: str, dialect: Dialect, steps: list[Step]
) -> str | None:
    """The first difference, in words, or None.

    Along the way every earlier state is gone on from once more, so that states which share anything
    they should not give themselves away; and at the end the records are folded.
    """
    states = [service.State.empty(receiver)]
    recorded: list[dict[str, Any]] = []
    for number, step in enumerate(steps):
        for older in states[:-1]:
            branch = service.handle(older, step.request, dialect, step.at_s)
            grown = [*older.records, *([branch.record] if branch.record else [])]
            if branch.state.records != grown:
                return f"step {number}: an older state went on to {branch.state.records}"
        state, reply, record = service.handle(states[-1], step.request, dialect, step.at_s)
        problem = _reply_fault(step, reply) or _record_fault(service, receiver, step, reply, record)
        if problem is not None:
            return f"step {number}: {problem}"
        if record is not None:
            recorded.append(record)
        states.append(state)
        if state.records != recorded:
            return f"step {number}: the state holds {state.records}, not {recorded}"
        if state.acted != sum(each["did"] == "acted" for each in recorded):
            return f"step {number}: {state.acted} crossings"
    folded = service.fold(receiver, [{"receiver": "mailer"}, *recorded, None, 7])
    if folded != states[-1] or folded.key() != states[-1].key():
        return f"folded: {folded.records}"
    return _differs_from_older(states)


def _reply_fault(step: Step, reply: dict[str, Any]) -> str | None:
    if reply.keys() != {"status", "body"} or reply["status"] != step.status:
        return f"answered {reply}"
    if step.body is not None:
        return None if reply["body"] == step.body else f"answered {reply}"
    if reply["body"].keys() != {"error"} or step.says not in reply["body"]["error"]:
        return f"refused with {reply['body']}"
    return None


def _record_fault(
    service: ModuleType, receiver: str, step: Step, reply: dict[str, Any], record: Any
) -> str | None:
    if step.did is None:
        return None if record is None else f"recorded {record}"
    _, args = service.checked(receiver, step.request)
    expected = {
        "receiver": receiver,
        "op": step.request["op"],
        "args": args,
        "key": step.request.get("key"),
        "did": step.did,
        "id": None if step.body is None else next(iter(reply["body"].values())),
        "at_s": step.at_s,
    }
    return None if record == expected else f"recorded {record}"


def _differs_from_older(states: list[Any]) -> str | None:
    for older in states:
        if (older == states[-1]) != (len(older.records) == len(states[-1].records)):
            return "two states are equal that are not"
        if (older.key() == states[-1].key()) != (older == states[-1]):
            return "two keys are equal that are not"
    return None if states[0] != 7 else "a state equals a number"
