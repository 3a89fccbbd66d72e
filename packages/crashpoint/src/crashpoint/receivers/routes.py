"""Where a program's requests go: to a twin in this process if a sweep put one there, else by HTTP.

So that one client object serves every way of sweeping, tests can make it before the sweep begins.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from crashpoint.inside.points import CHANGES, point
from crashpoint.receivers.client import Payments, Person, Tracker, transport_to

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from crashpoint.receivers.client import Transport

__all__ = ["payments", "person", "routed", "tracker"]

_routes: dict[str, Transport] = {}
_PAYMENT_OPS = frozenset({"charge", "refund"})


def tracker() -> Tracker:
    """The issue tracker of whatever world this program is run in."""
    return Tracker(_Routed("tracker"))


def payments() -> Payments:
    """The payments service of whatever world this program is run in."""
    return Payments(_Routed("payments"))


def person() -> Person:
    """The person who can be asked whether a request was done, by either receiver."""
    return Person(_PersonRouted())


@contextmanager
def routed(transports: Mapping[str, Transport]) -> Iterator[None]:
    """Send requests to these; a person's under `tracker/person` and `payments/person`."""
    before = dict(_routes)
    _routes.clear()
    _routes.update(transports)
    try:
        yield
    finally:
        _routes.clear()
        _routes.update(before)


class _Routed:
    """Announces requests that change something: whatever was saved before is saved by then."""

    def __init__(self, name: str) -> None:
        self._name = name

    def send(self, request: dict[str, Any]) -> dict[str, Any]:
        if request["op"] in CHANGES:
            point("sending", request["op"])
        return _transport(self._name).send(request)


class _PersonRouted:
    def send(self, request: dict[str, Any]) -> dict[str, Any]:
        receiver = "payments" if request.get("op") in _PAYMENT_OPS else "tracker"
        return _transport(f"{receiver}/person").send(request)


def _transport(name: str) -> Transport:
    if name in _routes:
        return _routes[name]
    receiver, _, rest = name.partition("/")
    return transport_to(receiver, rest)
