"""A receiver as an MCP server over standard input and output: each operation is a tool.

`python -m crashpoint.receivers.mcp --receiver tracker [--url URL]`. A subject starts it and it dies
with the subject, so it keeps nothing: each call is one request to the receiver's own process, whose
address is in --url or CRASHPOINT_TRACKER / CRASHPOINT_PAYMENTS. A change takes its key as the
argument `key`. It speaks those revisions of the protocol that begin with `initialize`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO, Final

import crashpoint
from crashpoint.canonical import NotCanonical, parse
from crashpoint.receivers.client import HttpTransport, ReceiverDown, ReceiverTimeout, Transport
from crashpoint.receivers.ops import KEY, RECEIVERS, Op

__all__ = ["LINE_MAX", "REVISIONS", "McpServer", "main"]

REVISIONS: Final = ("2025-11-25", "2025-06-18")
"""Newest first."""
LINE_MAX: Final = 1 << 17
"""Bytes in one message."""
STATUS: Final = "crashpoint/status"
"""Member of a result's `_meta`: the receiver's status. 503: it is down and was sent nothing, 504:
it gave no answer."""

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602

Message = dict[str, Any]


class _RpcError(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class McpServer:
    """Answers messages one by one; `transport` leads to the receiver."""

    def __init__(self, receiver: str, transport: Transport) -> None:
        self._receiver = receiver
        self._ops = RECEIVERS[receiver]
        self._transport = transport
        self._methods: Mapping[str, Callable[[Message], Message]] = {
            "initialize": self._initialize,
            "ping": lambda _params: {},
            "tools/list": lambda _params: {"tools": [_tool(op) for op in self._ops.values()]},
            "tools/call": self._call,
        }

    def serve(self, lines: BinaryIO, out: BinaryIO) -> None:
        """Answer line by line until the input ends."""
        while line := lines.readline(LINE_MAX + 1):
            answer = self.answer(line) if len(line) <= LINE_MAX else _skip(lines, line)
            if answer is not None:
                out.write(json.dumps(answer, ensure_ascii=False).encode() + b"\n")
                out.flush()

    def answer(self, line: bytes) -> Message | None:
        """The answer to one message; None for a notification or a response."""
        try:
            message = parse(line)
        except NotCanonical as error:
            return _failed(None, PARSE_ERROR, str(error))
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            return _failed(None, INVALID_REQUEST, "a message is one JSON-RPC 2.0 object")
        if "method" not in message or "id" not in message:
            return None
        identity, method = message["id"], message["method"]
        params = message.get("params", {})
        if type(identity) not in (str, int) or type(method) is not str:
            return _failed(
                None, INVALID_REQUEST, "id is a string or a whole number, method a string"
            )
        handler = self._methods.get(method)
        if handler is None:
            return _failed(identity, METHOD_NOT_FOUND, f"no method {method[:80]!a}")
        if type(params) is not dict:
            return _failed(identity, INVALID_PARAMS, f"{method}: params must be an object")
        try:
            return {"jsonrpc": "2.0", "id": identity, "result": handler(params)}
        except _RpcError as error:
            return _failed(identity, error.code, str(error))

    def _initialize(self, params: Message) -> Message:
        asked = params.get("protocolVersion")
        return {
            "protocolVersion": asked if asked in REVISIONS else REVISIONS[0],
            "capabilities": {"tools": {}},
            "serverInfo": {
                "name": f"crashpoint-{self._receiver}",
                "version": crashpoint.__version__,
            },
        }

    def _call(self, params: Message) -> Message:
        name, arguments = params.get("name"), params.get("arguments", {})
        op = self._ops.get(name) if type(name) is str else None
        if op is None:
            known = ", ".join(self._ops)
            raise _RpcError(INVALID_PARAMS, f"no tool {ascii(name)[:80]}; there are {known}")
        if type(arguments) is not dict:
            raise _RpcError(INVALID_PARAMS, f"{name}: arguments must be an object")
        request: dict[str, Any] = {"op": name, "args": arguments}
        if op.changes and "key" in arguments:
            request = {
                "op": name,
                "args": {other: arguments[other] for other in arguments if other != "key"},
                "key": arguments["key"],
            }
        try:
            reply = self._transport.send(request)
        except ReceiverDown as error:
            return _result(503, {"error": f"the receiver was sent nothing: {error}"})
        except ReceiverTimeout as error:
            return _result(504, {"error": f"the receiver may have done it: {error}"})
        return _result(reply["status"], reply["body"])


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until standard input ends: 0. Usage: 2."""
    parser = argparse.ArgumentParser(prog="crashpoint.receivers.mcp", description=__doc__)
    parser.add_argument("--receiver", choices=RECEIVERS, required=True)
    parser.add_argument("--url", help="default: from the environment")
    parser.add_argument("--timeout-s", type=float, default=10.0, help="wait for the receiver")
    options = parser.parse_args(argv)
    variable = f"CRASHPOINT_{options.receiver.upper()}"
    url = options.url or os.environ.get(variable)
    if url is None:
        parser.error(f"--url is missing and {variable} is not set")
    try:
        transport = HttpTransport(url, timeout_s=options.timeout_s)
    except ValueError as error:
        parser.error(str(error))
    McpServer(options.receiver, transport).serve(sys.stdin.buffer, sys.stdout.buffer)
    return 0


def _tool(op: Op) -> Message:
    properties = {
        name: {
            **param.schema,
            **({} if param.required or param.default is None else {"default": param.default}),
        }
        for name, param in op.params.items()
    }
    if op.changes:
        what = "Repeats of one request carry the same key."
        properties["key"] = {**KEY.schema, "description": what}
    return {
        "name": op.name,
        "description": op.does,
        "inputSchema": {
            "type": "object",
            "properties": properties,
            "required": [name for name, param in op.params.items() if param.required],
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": not op.changes},
    }


def _result(status: int, body: Message) -> Message:
    if status != 200:
        text = str(body.get("error", body))
        return {
            "content": [{"type": "text", "text": text}],
            "isError": True,
            "_meta": {STATUS: status},
        }
    return {
        "content": [{"type": "text", "text": json.dumps(body, ensure_ascii=False)}],
        "structuredContent": body,
        "isError": False,
        "_meta": {STATUS: status},
    }


def _failed(identity: str | int | None, code: int, message: str) -> Message:
    return {"jsonrpc": "2.0", "id": identity, "error": {"code": code, "message": message}}


def _skip(lines: BinaryIO, line: bytes) -> Message:
    while not line.endswith(b"\n") and (line := lines.readline(LINE_MAX)):
        pass
    return _failed(None, PARSE_ERROR, f"a message has at most {LINE_MAX} bytes")


if __name__ == "__main__":
    sys.exit(main())
