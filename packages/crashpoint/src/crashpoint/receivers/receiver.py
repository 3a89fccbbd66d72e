"""A receiver as it lives: its state, the faults that wait for it, the requests still under way.

The real process and the in-memory twin are both this; they differ in where records go and in how a
fault looks from outside.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, NoReturn

from crashpoint.receivers.client import ReceiverTimeout
from crashpoint.receivers.dialect import Dialect, Keys
from crashpoint.receivers.ops import Refusal, Request
from crashpoint.receivers.person import ScriptedPerson
from crashpoint.receivers.service import Handled, Record, Reply, State, handle, refuse

__all__ = ["Receiver", "ReceiverFault"]


class ReceiverFault(StrEnum):
    """What can go wrong with a request that changes something."""

    ERROR = "error"
    """It is answered with 500 and not done."""
    LOST_REPLY = "lost-reply"
    """It is done; the sender gets no answer."""
    LATE_ACCEPT = "late-accept"
    """The sender gets no answer; it is done when `settle` is called."""
    RECEIVER_CRASH = "receiver-crash"
    """It is done; the receiver dies before it answers."""


class Receiver:
    """One receiver. Not for several threads at once: the process in front serialises.

    `keep` makes a record durable before it counts; what it raises, the sender's call raises, and
    nothing has happened. `die` is how RECEIVER_CRASH ends this process.
    """

    def __init__(
        self,
        state: State,
        dialect: Dialect,
        *,
        now_s: Callable[[], float],
        keep: Callable[[Record], None],
        die: Callable[[], NoReturn],
        person: ScriptedPerson,
    ) -> None:
        self.state = state
        self.dialect = dialect
        self.late: tuple[Request, ...] = ()
        """Requests that wait for `settle`."""
        self.under_way: list[Request] = []
        """Requests that somebody is still working on."""
        self._now_s = now_s
        self._keep = keep
        self._die = die
        self._person = person
        self._faults: dict[int, ReceiverFault] = {}
        self._changes = 0

    def inject(self, fault: ReceiverFault, nth: int = 1) -> None:
        """Have the fault befall the `nth` request from now (1: the next) that changes something."""
        self._faults[self._changes + nth] = fault

    def calm(self) -> None:
        """Forget the faults that are still to come."""
        self._faults.clear()

    def send(self, request: Any) -> Reply:
        """Answer a request; raises ReceiverTimeout when a fault keeps the answer back."""
        return self.in_progress(request) or self.perform(request)

    def in_progress(self, request: Any) -> Reply | None:
        """The refusal of a request whose key is under way, where the dialect refuses such."""
        if not (self.under_way or self.late) or self.dialect.keys is not Keys.CHECKED:
            return None
        handled = self._handle(request)
        if handled.record is None or handled.record["key"] is None:
            return None
        key = handled.record["key"]
        if all(other.get("key") != key for other in (*self.under_way, *self.late)):
            return None
        sentence = f"{handled.record['op']}: a request with this key is still in progress"
        return self._settle_on(refuse(handled, self.state, Refusal(409, sentence)))

    def perform(self, request: Any) -> Reply:
        """As `send`, whatever is under way."""
        handled = self._handle(request)
        if handled.record is None:
            return handled.reply
        self._changes += 1
        fault = self._faults.pop(self._changes, None)
        if fault is ReceiverFault.ERROR:
            failed = Refusal(500, f"{handled.record['op']}: the receiver failed and did nothing")
            handled = refuse(handled, self.state, failed)
        elif fault is ReceiverFault.LATE_ACCEPT:
            self.late = (*self.late, request)
            raise ReceiverTimeout("the request is on its way and nobody has answered")
        reply = self._settle_on(handled)
        if fault is ReceiverFault.RECEIVER_CRASH:
            self._die()
        if fault is ReceiverFault.LOST_REPLY:
            raise ReceiverTimeout("the reply was lost")
        return reply

    def ask(self, question: Any) -> Reply:
        """Have the person answer {op, args}: has it been done."""
        return self._settle_on(self._person.ask(self.state, question, self._now_s()))

    def settle(self) -> int:
        """Do what waits since LATE_ACCEPT, in order; returns how many requests that were."""
        late, self.late = self.late, ()
        for request in late:
            self._settle_on(self._handle(request))
        return len(late)

    def _handle(self, request: Any) -> Handled:
        return handle(self.state, request, self.dialect, self._now_s())

    def _settle_on(self, handled: Handled) -> Reply:
        if handled.record is not None:
            self._keep(handled.record)
            self.state = handled.state
        return handled.reply
