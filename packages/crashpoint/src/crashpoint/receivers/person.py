"""A scripted person: says whether a request has been done, from the receiver's records.

Answers truly but for a share of errors drawn from a seed. Whether the n-th question is answered
wrongly does not depend on who asks, nor on how often the receiver was restarted.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

from crashpoint.receivers.ops import Refusal, Request, checked_change
from crashpoint.receivers.service import Handled, State, refused

__all__ = ["TRUTHFUL", "ScriptedPerson"]


@dataclass(frozen=True)
class ScriptedPerson:
    """`wrong_rate` of the answers, 0 to 1, are wrong. Raises ValueError for any other rate."""

    seed: int = 0
    wrong_rate: float = 0.0

    def __post_init__(self) -> None:
        """Check the rate."""
        if not 0 <= self.wrong_rate <= 1:
            raise ValueError(f"wrong_rate must be from 0 to 1, not {self.wrong_rate!r}")

    def ask(self, state: State, question: Request, now_s: float) -> Handled:
        """Answer {op, args}: has a request with these been done? The body is {happened}.

        The record's `did` is `asked`, its `id` counts the questions, its `said` is the answer. What
        a look-up does not show yet, the person sees.
        """
        try:
            op, args = checked_change(state.receiver, question)
        except Refusal as refusal:
            return Handled(state, refused(refusal), None)
        happened = any(r["op"] == op.name and r["args"] == args for r in state.crossings())
        number = state.asked + 1
        said = happened != self._errs(number)
        record = {
            "receiver": state.receiver,
            "op": "ask",
            "args": {"op": op.name, "args": args},
            "key": None,
            "did": "asked",
            "id": number,
            "at_s": now_s,
            "said": said,
        }
        return Handled(state.then(record), {"status": 200, "body": {"happened": said}}, record)

    def _errs(self, number: int) -> bool:
        rate = self.wrong_rate
        # Making a generator takes longer than all the rest of an answer.
        return rate > 0 and random.Random(f"{self.seed}:{number}").random() < rate


TRUTHFUL: Final = ScriptedPerson()
"""Never errs."""
