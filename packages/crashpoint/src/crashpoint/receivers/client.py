"""What a program under test says to a receiver: typed calls over any transport.

A call announces the points `accepted` and `returned`, or `timeout` when no answer came, so that a
sweep can crash there. Standard library only, any Python >= 3.9.
"""

from __future__ import annotations

import json
import os
from typing import Any, Literal, Protocol, overload

from crashpoint.inside.points import allow, point

__all__ = [
    "HttpTransport",
    "Payments",
    "Person",
    "ReceiverDown",
    "ReceiverError",
    "ReceiverRefused",
    "ReceiverTimeout",
    "SocketTransport",
    "Tracker",
    "Transport",
    "connect",
    "person_of",
    "transport_to",
]

TIMEOUT_S = 10.0


class ReceiverError(Exception):
    """A call that returned no result; which subclass says what is known about the request."""


class ReceiverRefused(ReceiverError):
    """The receiver answered with an error. Below 500 the request has changed nothing."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class ReceiverTimeout(ReceiverError):
    """No answer, in time or at all: the request may have been done, or still be."""


class ReceiverDown(ReceiverError):
    """Nobody listens there: the request has not been sent."""


class Transport(Protocol):
    """Carries one request {op, args, key?} there and its reply {status, body} back."""

    def send(self, request: dict[str, Any]) -> dict[str, Any]:
        """Raises ReceiverTimeout or ReceiverDown when there is no reply."""
        ...


class HttpTransport:
    """Sends each request as a POST over a connection of its own.

    A connection that is used again may turn out to be closed only after the request went out, which
    would make an unknown outcome of a receiver that was merely restarted.
    """

    def __init__(self, url: str, *, timeout_s: float = TIMEOUT_S) -> None:
        scheme, _, rest = url.partition("://")
        self._address, _, path = rest.partition("/")
        if scheme != "http" or not self._address:
            raise ValueError(f"the receiver's address must begin with http://, not {url!r}")
        self._path = "/" + path
        self._timeout_s = timeout_s

    def send(self, request: dict[str, Any]) -> dict[str, Any]:
        """As in Transport."""
        from http.client import HTTPConnection, HTTPException  # a third of this module's start

        body = json.dumps(request, ensure_ascii=False).encode()
        connection = HTTPConnection(self._address, timeout=self._timeout_s)
        try:
            try:
                connection.connect()
            except OSError as error:
                raise ReceiverDown(f"nobody listens at {self._address}: {error}") from error
            try:
                connection.request("POST", self._path, body, {"Content-Type": "application/json"})
                response = connection.getresponse()
                answer = json.loads(response.read())
            except (OSError, HTTPException, ValueError) as error:
                raise ReceiverTimeout(f"no answer from {self._address}: {error!r}") from error
        finally:
            connection.close()
        if not isinstance(answer, dict):
            raise ReceiverTimeout(f"no answer from {self._address}, only {str(answer)[:80]!r}")
        return {"status": response.status, "body": answer}


class SocketTransport:
    """Sends each request as a line over a Unix socket: `address` is `PATH#TAG`."""

    def __init__(self, address: str, rest: str = "", *, timeout_s: float = TIMEOUT_S) -> None:
        self._path, _, tag = address.rpartition("#")
        self._to = f"{tag}/{rest}" if rest else tag
        self._timeout_s = timeout_s

    def send(self, request: dict[str, Any]) -> dict[str, Any]:
        """As in Transport."""
        import socket

        line = json.dumps({"to": self._to, "request": request}, ensure_ascii=False).encode()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(self._timeout_s)
            try:
                connection.connect(self._path)
            except OSError as error:
                raise ReceiverDown(f"nobody listens at {self._path}: {error}") from error
            answer = b""
            try:
                connection.sendall(line + b"\n")
                while not answer.endswith(b"\n"):
                    more = connection.recv(1 << 16)
                    if not more:
                        break
                    answer += more
                reply: dict[str, Any] = json.loads(answer)
            except (OSError, ValueError) as error:
                raise ReceiverTimeout(f"no answer from {self._path}: {error!r}") from error
        return reply


def transport_to(receiver: str, rest: str = "") -> Transport:
    """The way to a receiver (or, with `rest`, to its person) that the environment names.

    Raises ReceiverDown when it names none.
    """
    variable = f"CRASHPOINT_{receiver.upper()}"
    address = os.environ.get(f"{variable}_SOCKET")
    if address is not None:
        return SocketTransport(address, rest)
    url = os.environ.get(variable)
    if url is None:
        raise ReceiverDown(
            f"no {receiver} here: use it inside a sweep that has one, or set {variable} to its URL"
        )
    return HttpTransport(f"{url}/{rest}" if rest else url)


class _Caller:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def find(
        self,
        op: str | None = None,
        args: dict[str, Any] | None = None,
        *,
        key: str | None = None,
        age_s: float = 0.0,
    ) -> dict[str, Any]:
        """Whether a request has been done: {found, final, ids}. Give `op` and `args`, or `key`.

        `age_s`: seconds since the request can last have been sent; only with it can "not found"
        become final at a receiver that shows things late.
        """
        wanted = {"op": op, "args": args, "key": key, "age_s": age_s}
        return self._read(
            "find", {name: value for name, value in wanted.items() if value is not None}
        )

    def _read(self, op: str, args: dict[str, Any]) -> dict[str, Any]:
        body = self._send({"op": op, "args": args})
        point("returned", op)
        return body

    def _change(self, op: str, args: dict[str, Any], key: str | None, noun: str) -> int:
        request: dict[str, Any] = {"op": op, "args": args}
        if key is not None:
            request["key"] = key
        body = self._send(request)
        point("accepted", op)
        point("returned", op)
        if noun not in body:
            raise ReceiverRefused(200, f"{op}: the key was used for something else: {body}")
        number: int = body[noun]
        return number

    def _send(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            return _ask(self._transport, request)
        except ReceiverTimeout:
            point("timeout", request["op"])
            raise


def _ask(transport: Transport, request: dict[str, Any]) -> dict[str, Any]:
    allow()
    reply = transport.send(request)
    body: dict[str, Any] = reply["body"]
    if reply["status"] != 200:
        raise ReceiverRefused(reply["status"], str(body.get("error", body)))
    return body


class Tracker(_Caller):
    """An issue tracker. All methods raise ReceiverError's subclasses."""

    def file(self, title: str, body: str = "", *, key: str | None = None) -> int:
        """File an issue; returns its number."""
        return self._change("file", {"title": title, "body": body}, key, "issue")

    def comment(self, issue: int, text: str, *, key: str | None = None) -> int:
        """Comment on an issue; returns the comment's number."""
        return self._change("comment", {"issue": issue, "text": text}, key, "comment")

    def search(self, text: str) -> list[int]:
        """Numbers of the issues whose title or body holds the text."""
        issues: list[int] = self._read("search", {"text": text})["issues"]
        return issues


class Payments(_Caller):
    """A payments service. All methods raise ReceiverError's subclasses."""

    def charge(
        self, order: str, cents: int, currency: str = "EUR", *, key: str | None = None
    ) -> int:
        """Charge an order; returns the charge's number."""
        args = {"order": order, "cents": cents, "currency": currency}
        return self._change("charge", args, key, "charge")

    def refund(self, charge: int, cents: int, *, key: str | None = None) -> int:
        """Refund part or all of a charge; returns the refund's number."""
        return self._change("refund", {"charge": charge, "cents": cents}, key, "refund")

    def look_up(self, order: str) -> list[dict[str, Any]]:
        """The charges of an order: [{charge, cents, currency, refunded}]."""
        charges: list[dict[str, Any]] = self._read("look_up", {"order": order})["charges"]
        return charges


class Person:
    """Somebody who can look at the receiver and say whether a request has been done."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def ask(self, op: str, args: dict[str, Any]) -> bool:
        """Whether a request with this op and these args has been done, as far as the person knows.

        Asking is no point. Raises ReceiverError's subclasses.
        """
        happened: bool = _ask(self._transport, {"op": op, "args": args})["happened"]
        return happened


@overload
def connect(receiver: Literal["tracker"]) -> Tracker: ...
@overload
def connect(receiver: Literal["payments"]) -> Payments: ...
def connect(receiver: Literal["tracker", "payments"]) -> Tracker | Payments:
    """The receiver whose address the bench put into the environment.

    Read from CRASHPOINT_TRACKER or CRASHPOINT_PAYMENTS; raises ReceiverDown when it is not set.
    """
    transport = transport_to(receiver)
    return Tracker(transport) if receiver == "tracker" else Payments(transport)


def person_of(receiver: Literal["tracker", "payments"]) -> Person:
    """The person to ask about this receiver; raises ReceiverDown as `connect` does."""
    return Person(transport_to(receiver, "person"))
