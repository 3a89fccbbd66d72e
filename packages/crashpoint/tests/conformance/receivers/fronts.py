"""The ways to reach a receiver, made alike for one suite: twin, HTTP, lines, MCP."""

import signal
from collections.abc import Sequence
from typing import Any, Protocol

from conformance.receivers.bench import Bench
from conformance.receivers.mcp_client import McpClient
from crashpoint.receivers.client import HttpTransport, SocketTransport, Transport
from crashpoint.receivers.dialect import Dialect
from crashpoint.receivers.person import ScriptedPerson
from crashpoint.receivers.receiver import ReceiverFault
from crashpoint.receivers.twin import TwinTransport

__all__ = ["FRONTS", "Front"]

BEGIN_S = 1_000_000.0
Faults = Sequence[tuple[ReceiverFault, int]]


class Front(Protocol):
    """A receiver under test."""

    person: Transport

    def send(self, request: dict[str, Any]) -> dict[str, Any]:
        """As in Transport."""
        ...

    def another(self) -> Transport:
        """A second way in, for a second thread."""
        ...

    def advance(self, seconds: float) -> None:
        """Let its clock go on."""
        ...

    def settle(self) -> int:
        """Do what `late-accept` kept back."""
        ...

    def wait_for_crash(self) -> None:
        """Wait until it has ended by itself."""
        ...

    def restart(self) -> None:
        """Kill it and start it again."""
        ...

    def records(self) -> list[dict[str, Any]]:
        """What it has recorded."""
        ...

    def close(self) -> None:
        """End it."""
        ...


class TwinFront:
    """The twin, with a clock of ours."""

    def __init__(
        self, _bench: Bench, receiver: str, dialect: Dialect, faults: Faults, person: ScriptedPerson
    ) -> None:
        self._now_s = BEGIN_S
        self.twin = TwinTransport(receiver, dialect, now_s=lambda: self._now_s, person=person)
        for fault, nth in faults:
            self.twin.inject(fault, nth)
        self.person = self.twin.person
        self.send = self.twin.send
        self.settle = self.twin.settle
        self.restart = self.twin.restart

    def another(self) -> Transport:
        return self.twin

    def advance(self, seconds: float) -> None:
        self._now_s += seconds

    def wait_for_crash(self) -> None:
        assert self.twin.is_down

    def records(self) -> list[dict[str, Any]]:
        return self.twin.state.records

    def close(self) -> None:
        pass


class HttpFront:
    """A process, and requests to it over HTTP. The time stands in a file."""

    def __init__(
        self, bench: Bench, receiver: str, dialect: Dialect, faults: Faults, person: ScriptedPerson
    ) -> None:
        self._bench = bench
        self._trial = bench.trial()
        self._now_s = BEGIN_S
        self.host, self._clock_file = bench.borrow(receiver, self._trial, dialect, person)
        self.advance(0)
        for fault, nth in faults:
            self.host.inject(fault, nth)
        self.settle = self.host.settle
        self.person = HttpTransport(f"{self.host.url}/person")
        self._transport = self.another()

    def another(self) -> Transport:
        return HttpTransport(self.host.url)

    def send(self, request: dict[str, Any]) -> dict[str, Any]:
        return self._transport.send(request)

    def advance(self, seconds: float) -> None:
        self._now_s += seconds
        self._clock_file.write_text(str(self._now_s))

    def wait_for_crash(self) -> None:
        assert self.host.wait() == -signal.SIGKILL

    def restart(self) -> None:
        self.host.restart()

    def records(self) -> list[dict[str, Any]]:
        return self._bench.records(self._trial)

    def close(self) -> None:
        self._bench.give_back(self.host)


class LineFront(HttpFront):
    """The same process over its Unix socket."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.person = SocketTransport(self._address, "person")

    @property
    def _address(self) -> str:
        return self.host.environment()[f"CRASHPOINT_{self.host.receiver.upper()}_SOCKET"]

    def another(self) -> Transport:
        return SocketTransport(self._address)


class McpFront(HttpFront):
    """The same process behind MCP servers, of which a restart kills the first as well."""

    def __init__(self, *args: Any) -> None:
        self._clients: list[McpClient] = []
        super().__init__(*args)

    def another(self) -> Transport:
        client = McpClient(self.host.receiver, self.host.environment())
        self._clients.append(client)
        client.initialize()
        return client

    def restart(self) -> None:
        self._clients.pop(0).kill()
        super().restart()
        self._transport = self.another()

    def close(self) -> None:
        for client in self._clients:
            assert client.close() == 0
        super().close()


FRONTS = {"twin": TwinFront, "http": HttpFront, "line": LineFront, "mcp": McpFront}
