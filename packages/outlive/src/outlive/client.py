"""The engine's HTTP API, for programs that start runs, send events and decide questions.

Blocking, one connection a request: a program that acts now and then needs no pool. Values are JSON.
"""

from __future__ import annotations

import http.client
import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode, urlsplit

import msgspec

if TYPE_CHECKING:
    from outlive.sdk.app import Workflow

__all__ = ["DEFAULT_ENGINE", "ApiRefused", "Client", "EngineAway", "RunNotCompleted"]

DEFAULT_ENGINE: Final = "http://127.0.0.1:6770"
WAIT_S: Final = 30.0
"""How long one request waits for a run's end; `result` asks again."""
FINAL: Final = frozenset({"completed", "failed", "cancelled"})


class EngineAway(ConnectionError):
    """No answer from the engine; nobody knows whether it did what was asked."""


class ApiRefused(RuntimeError):
    """The engine said no; `status` is that of HTTP."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class RunNotCompleted(RuntimeError):
    """A run ended without a result, or needs a person; `run` is what the engine shows of it."""

    def __init__(self, run: Mapping[str, Any]) -> None:
        error = run.get("error") or {}
        cause = run.get("cause") or error.get("message") or ""
        kind = f"{error['type']}: " if error.get("type") else ""
        super().__init__(f"run {run['id']} is {run['state']}{': ' if cause else ''}{kind}{cause}")
        self.run = run


class Client:
    """`engine` is its address, `key` what it was started with (else OUTLIVE_KEY)."""

    def __init__(
        self, engine: str = DEFAULT_ENGINE, *, key: str | None = None, timeout_s: float = 10.0
    ) -> None:
        parts = urlsplit(engine)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"engine {engine!r} is no address: write {DEFAULT_ENGINE}")
        self.engine = engine.rstrip("/")
        self._host = parts.hostname
        self._port = parts.port
        self._secure = parts.scheme == "https"
        self._prefix = parts.path.rstrip("/")
        self._key = os.environ.get("OUTLIVE_KEY", "") if key is None else key
        self._timeout_s = timeout_s

    # --- runs ---

    def start(
        self,
        workflow: Workflow[Any, Any] | str,
        value: Any = None,
        *,
        app: str = "",
        id: str = "",  # noqa: A002  the word for it
    ) -> str:
        """Start a run and return its id; with `id` once, however often this is called.

        `app` is needed when the workflow is named by a string. Raises ApiRefused when a run of that
        id has another workflow or input.
        """
        name = workflow if isinstance(workflow, str) else workflow.name
        app = app or ("" if isinstance(workflow, str) else workflow.app)
        body: dict[str, Any] = {"app": app, "workflow": name, "input": value}
        if id:
            body["id"] = id
        found: str = self.post("/v1/runs", body)["id"]
        return found

    def run(self, id: str, *, wait_s: float = 0) -> dict[str, Any]:  # noqa: A002  as above
        """What the engine shows of a run; with `wait_s` once it ended or so much time is over."""
        query = {"wait": f"{wait_s:g}"} if wait_s else {}
        return self.get(f"/v1/runs/{part(id)}", query, more_s=wait_s)

    def result(self, id: str, *, timeout_s: float | None = None) -> Any:  # noqa: A002  as above
        """The result of a run once it has one.

        Raises RunNotCompleted when it ended otherwise or needs a person, TimeoutError.
        """
        end_s = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left = WAIT_S if end_s is None else end_s - time.monotonic()
            found = self.run(id, wait_s=max(0.001, min(left, WAIT_S)))
            if found["state"] == "completed":
                return found.get("result")
            if found["state"] in FINAL or found["state"] == "needs_attention":
                raise RunNotCompleted(found)
            if end_s is not None and time.monotonic() >= end_s:
                raise TimeoutError(f"run {id} is still {found['state']} after {timeout_s:g} s")

    def cancel(self, id: str) -> dict[str, Any]:  # noqa: A002  as above
        """Have a run cancelled; raises ApiRefused when it has ended."""
        return self.post(f"/v1/runs/{part(id)}/cancel", {})

    # --- events and questions ---

    def send(self, app: str, name: str, data: Any = None, *, id: str = "") -> dict[str, Any]:  # noqa: A002
        """Send an event, once for its `id`; says which runs it started."""
        body: dict[str, Any] = {"app": app, "name": name, "data": data}
        if id:
            body["id"] = id
        return self.post("/v1/events", body)

    def decide(
        self,
        approval: str,
        *,
        approve: bool,
        by: str = "",
        comment: str = "",
        digest: str | None = None,
    ) -> dict[str, Any]:
        """Answer a question; with `digest` only if it asks about exactly that."""
        body = {
            "decision": "approve" if approve else "deny",
            "by": by,
            "comment": comment,
            "digest": digest,
        }
        return self.post(f"/v1/approvals/{part(approval)}", body)

    # --- requests ---

    def get(
        self, path: str, query: Mapping[str, Any] | None = None, *, more_s: float = 0
    ) -> dict[str, Any]:
        """What a GET answers; raises ApiRefused, EngineAway."""
        asked = {name: value for name, value in (query or {}).items() if value is not None}
        return self._ask("GET", f"{path}?{urlencode(asked)}" if asked else path, None, more_s)

    def post(self, path: str, body: Any) -> dict[str, Any]:
        """What a POST answers; raises ApiRefused, EngineAway, and TypeError for no JSON."""
        return self._ask("POST", path, msgspec.json.encode(body), 0)

    def _ask(self, method: str, path: str, body: bytes | None, more_s: float) -> dict[str, Any]:
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=self._timeout_s + more_s)
        headers = {"Content-Type": "application/json"} if body is not None else {}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        try:
            connection.request(method, self._prefix + path, body, headers)
            response = connection.getresponse()
            status, data = response.status, response.read()
        except (OSError, http.client.HTTPException) as error:
            why = str(error) or type(error).__name__
            raise EngineAway(
                f"no answer from the engine at {self.engine}: {why}; is it running? (outlive up, "
                "outlive engine; OUTLIVE_ENGINE names another address)"
            ) from error
        finally:
            connection.close()
        try:
            answer = msgspec.json.decode(data)
        except msgspec.DecodeError:
            raise ApiRefused(f"{self.engine} is no engine: it answered {status}", status) from None
        if status >= 400 or not isinstance(answer, dict):
            said = answer.get("error", status) if isinstance(answer, dict) else status
            raise ApiRefused(str(said), status)
        return answer


def part(text: str) -> str:
    """A text as one part of a path."""
    return quote(text, safe="")
