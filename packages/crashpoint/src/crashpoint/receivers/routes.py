"""Where a program's requests go: to a twin in this process if a sweep put one there, else by HTTP.

So that one client object serves every way of sweeping, tests can make it before the sweep begins.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from crashpoint.receivers.client import HttpTransport, Payments, Person, ReceiverDown, Tracker

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
    def __init__(self, name: str) -> None:
        self._name = name

    def send(self, request: dict[str, Any]) -> dict[str, Any]:
        return _transport(self._name).send(request)


class _PersonRouted:
    def send(self, request: dict[str, Any]) -> dict[str, Any]:
        receiver = "payments" if request.get("op") in _PAYMENT_OPS else "tracker"
        return _transport(f"{receiver}/person").send(request)


def _transport(name: str) -> Transport:
    if name in _routes:
        return _routes[name]
    receiver, _, rest = name.partition("/")
    variable = f"CRASHPOINT_{receiver.upper()}"
    url = os.environ.get(variable)
    if url is None:
        raise ReceiverDown(
            f"no {receiver} here: use it inside a sweep that has one, or set {variable} to its URL"
        )
    return HttpTransport(f"{url}/{rest}" if rest else url)
