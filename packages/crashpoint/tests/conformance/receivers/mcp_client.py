"""The client's side of MCP over a child's standard input and output, as much as tests need."""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

from conformance.receivers.bench import DEADLINE_S
from crashpoint.receivers.client import ReceiverDown, ReceiverTimeout
from crashpoint.receivers.mcp import REVISIONS, STATUS

__all__ = ["McpClient"]


class McpClient:
    """A running MCP server; `tell` sends bytes, `ask` a request, `send` one to the receiver."""

    def __init__(self, receiver: str, env: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "crashpoint.receivers.mcp", f"--receiver={receiver}"],
            env={**os.environ, **env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._rest = b""
        self._ids = 0

    @property
    def pid(self) -> int:
        return self._process.pid

    def initialize(self, revision: str = REVISIONS[0]) -> dict[str, Any]:
        """Shake hands; returns the server's side of it."""
        client = {"name": "test", "version": "1"}
        params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": client}
        result = self.ask("initialize", params)["result"]
        self.tell(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        return result

    def ask(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a request and return its response."""
        self._ids += 1
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": self._ids, "method": method}
        if params is not None:
            message["params"] = params
        self.tell(json.dumps(message, ensure_ascii=False).encode() + b"\n")
        response = self.hear()
        assert response["id"] == self._ids
        return response

    def send(self, request: dict[str, Any]) -> dict[str, Any]:
        """As a Transport: the operation is the tool, the key an argument."""
        arguments = dict(request["args"])
        if "key" in request:
            arguments["key"] = request["key"]
        response = self.ask("tools/call", {"name": request["op"], "arguments": arguments})
        if "error" in response:
            assert response["error"]["code"] == -32602
            return {"status": 400, "body": {"error": response["error"]["message"]}}
        result = response["result"]
        status, text = result["_meta"][STATUS], result["content"][0]["text"]
        assert result["isError"] == (status != 200)
        if status == 503:
            raise ReceiverDown(text)
        if status == 504:
            raise ReceiverTimeout(text)
        if status != 200:
            return {"status": status, "body": {"error": text}}
        assert json.loads(text) == result["structuredContent"]
        return {"status": status, "body": result["structuredContent"]}

    def tell(self, line: bytes) -> None:
        """Send bytes as they are."""
        assert self._process.stdin is not None
        self._process.stdin.write(line)
        self._process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        """The next message; raises EOFError when the server has ended."""
        assert self._process.stdout is not None
        deadline = time.monotonic() + DEADLINE_S
        while b"\n" not in self._rest:
            left = max(0.0, deadline - time.monotonic())
            if not select.select([self._process.stdout], [], [], left)[0]:
                raise AssertionError(f"the MCP server said nothing within {DEADLINE_S:g} s")
            more = os.read(self._process.stdout.fileno(), 65_536)
            if not more:
                raise EOFError
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)

    def kill(self) -> None:
        """SIGKILL it."""
        self._process.kill()
        self.close()

    def close(self) -> int:
        """End its input and wait for it; returns how it ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        code = self._process.wait(DEADLINE_S)
        self._process.stdout.close()
        return code
