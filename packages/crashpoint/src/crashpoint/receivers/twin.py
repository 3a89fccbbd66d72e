"""The in-memory twin of a receiver: the same answers, no process; what it shows is MODELLED.

Its whole world is `state` and `late`: keep both and put them back, and the twin is where it was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from crashpoint.pipeline.crash import Basis
from crashpoint.receivers.client import ReceiverDown, ReceiverTimeout
from crashpoint.receivers.dialect import KEYED, Dialect
from crashpoint.receivers.person import TRUTHFUL, ScriptedPerson
from crashpoint.receivers.receiver import Receiver
from crashpoint.receivers.service import Record, Reply, State, fold

__all__ = ["TwinTransport"]


class TwinTransport(Receiver):
    """A receiver in this process, and the transport to it. `now_s` is its clock, in seconds."""

    basis = Basis.MODELLED

    def __init__(
        self,
        receiver: str,
        dialect: Dialect = KEYED,
        *,
        now_s: Callable[[], float] = lambda: 0.0,
        person: ScriptedPerson = TRUTHFUL,
    ) -> None:
        super().__init__(
            State.empty(receiver), dialect, now_s=now_s, keep=_keep, die=self._crash, person=person
        )
        self.person = _PersonTransport(self)
        """The transport to the person who can be asked."""
        self.is_down = False
        """Whether the fault `receiver-crash` has struck."""

    def send(self, request: Any) -> Reply:
        """As in Transport."""
        if self.is_down:
            raise ReceiverDown("the receiver has crashed and was not restarted")
        return super().send(request)

    def ask(self, question: Any) -> Reply:
        """As in Receiver."""
        if self.is_down:
            raise ReceiverDown("the receiver has crashed and was not restarted")
        return super().ask(question)

    def restart(self) -> None:
        """Come up again as a process does: from the records, without what was still on its way."""
        self.is_down = False
        self.late = ()
        self.state = fold(self.state.receiver, self.state.records)

    def _crash(self) -> NoReturn:
        self.is_down = True
        raise ReceiverTimeout("the receiver crashed before it answered")


class _PersonTransport:
    def __init__(self, twin: TwinTransport) -> None:
        self._twin = twin

    def send(self, request: dict[str, Any]) -> dict[str, Any]:
        return self._twin.ask(request)


def _keep(_record: Record) -> None:
    """Nothing outlives this process."""
