"""The MCP front against what the protocol's revisions 2025-06-18 and 2025-11-25 ask of a server."""

import json
import subprocess
import sys

import pytest

from conformance.receivers.calls import MAKES, made
from conformance.receivers.mcp_client import McpClient
from crashpoint.receivers.client import HttpTransport, ReceiverDown, ReceiverTimeout
from crashpoint.receivers.mcp import LINE_MAX, REVISIONS, STATUS
from crashpoint.receivers.receiver import ReceiverFault
from integration.receivers.relay import Relay


@pytest.fixture
def payments(the_bench):
    trial = the_bench.trial()
    with the_bench.host("payments", trial) as host:
        host.trial = trial
        yield host


@pytest.fixture
def client(payments):
    made_client = McpClient("payments", payments.environment())
    yield made_client
    assert made_client.close() == 0


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_known_revision_is_spoken(client, revision):
    result = client.initialize(revision)
    assert result["protocolVersion"] == revision
    assert result["capabilities"] == {"tools": {}}
    assert result["serverInfo"]["name"] == "crashpoint-payments"
    assert set(result["serverInfo"]) == {"name", "version"}


@pytest.mark.parametrize("revision", ["2024-11-05", "1.0.0", "2099-01-01", None])
def test_an_unknown_revision_is_answered_with_the_newest_known(client, revision):
    assert client.initialize(revision)["protocolVersion"] == REVISIONS[0]


def test_ping(client):
    assert client.ask("ping") == {"jsonrpc": "2.0", "id": 1, "result": {}}


def test_each_operation_is_a_tool(client):
    client.initialize()
    result = client.ask("tools/list", {})["result"]
    tools = {tool["name"]: tool for tool in result["tools"]}
    assert list(tools) == ["charge", "refund", "look_up", "find"]
    assert "nextCursor" not in result
    charge = tools["charge"]["inputSchema"]
    assert charge["type"] == "object"
    assert charge["required"] == ["order", "cents"]
    assert charge["additionalProperties"] is False
    assert charge["properties"]["currency"] == {
        "type": "string",
        "pattern": "^[A-Z]{3}$",
        "default": "EUR",
    }
    assert "key" in charge["properties"]
    assert "key" not in tools["look_up"]["inputSchema"]["properties"]
    assert [tool["annotations"]["readOnlyHint"] for tool in tools.values()] == [
        False,
        False,
        True,
        True,
    ]


def test_a_call_gives_its_result_twice(client):
    client.initialize()
    response = client.ask("tools/call", {"name": "charge", "arguments": {"order": "o", "cents": 5}})
    assert response["result"] == {
        "content": [{"type": "text", "text": '{"charge": 1}'}],
        "structuredContent": {"charge": 1},
        "isError": False,
        "_meta": {STATUS: 200},
    }


def test_a_refusal_is_a_result_a_model_can_read(client):
    client.initialize()
    response = client.ask("tools/call", {"name": "refund", "arguments": {"charge": 1, "cents": 5}})
    assert response["result"] == {
        "content": [{"type": "text", "text": "refund: there is no charge 1"}],
        "isError": True,
        "_meta": {STATUS: 404},
    }
    response = client.ask("tools/call", {"name": "refund", "arguments": {"charge": 1}})
    assert response["result"]["isError"] is True
    assert response["result"]["content"][0]["text"] == "refund: cents is missing"


def call(**params):
    """A message that calls a tool."""
    message = {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": params}
    return json.dumps(message).encode()


BAD_MESSAGES = (
    (b"{", -32700, None),
    (b"\xff", -32700, None),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"\\ud800"}}', -32700, None),
    (b'"' + b"x" * (3 * LINE_MAX) + b'"', -32700, None),
    (b"[]", -32600, None),
    (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600, None),
    (b'"ping"', -32600, None),
    (b'{"id":1,"method":"ping"}', -32600, None),
    (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600, None),
    (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None),
    (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600, None),
    (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600, None),
    (b'{"jsonrpc":"2.0","id":7,"method":7}', -32600, None),
    (b'{"jsonrpc":"2.0","id":"a","method":"resources/list"}', -32601, "a"),
    (b'{"jsonrpc":"2.0","id":3,"method":"server/discover","params":{}}', -32601, 3),
    (b'{"jsonrpc":"2.0","id":3,"method":"tools/call","params":[]}', -32602, 3),
    (b'{"jsonrpc":"2.0","id":3,"method":"tools/call"}', -32602, 3),
    (call(name=["a"]), -32602, 3),
    (call(name="file"), -32602, 3),
    (call(name="charge", arguments=[1]), -32602, 3),
    (call(name="charge", arguments=None), -32602, 3),
)


def test_a_bad_message_gets_an_error_and_the_next_one_is_served(the_bench, payments, client):
    for line, code, identity in BAD_MESSAGES:
        client.tell(line + b"\n")
        answer = client.hear()
        assert answer.keys() == {"jsonrpc", "id", "error"}, line[:80]
        assert (answer["error"]["code"], answer["id"]) == (code, identity), line[:80]
        assert "\n" not in answer["error"]["message"]
    assert client.ask("ping")["result"] == {}
    assert the_bench.records(payments.trial) == []


def test_notifications_and_responses_are_not_answered(the_bench, payments, client):
    charge = json.loads(call(name="charge", arguments={"order": "o", "cents": 5}))
    del charge["id"]
    for line in (
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}',
        json.dumps(charge).encode(),
        b'{"jsonrpc":"2.0","id":1,"result":{}}',
        b'{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}',
    ):
        client.tell(line + b"\n")
    assert client.ask("ping")["result"] == {}
    assert the_bench.records(payments.trial) == []


def test_what_is_done_survives_the_front(the_bench, payments):
    keyed = {**MAKES["payments"], "key": "k"}
    first = McpClient("payments", payments.environment())
    first.initialize()
    assert made(first.send(keyed)) == 1
    first.kill()
    second = McpClient("payments", payments.environment())
    second.initialize()
    assert made(second.send(keyed)) == 1
    assert made(HttpTransport(payments.url).send(keyed)) == 1
    assert second.close() == 0
    dids = [record["did"] for record in the_bench.records(payments.trial)]
    assert dids == ["acted", "repeated", "repeated"]


def test_a_front_killed_while_it_waits_has_sent_the_request(the_bench):
    trial = the_bench.trial()
    folder = the_bench.folder(f"relay-{trial.name}")
    relay = Relay(folder / "s", the_bench.ledger.witness_socket)
    keyed = {"op": "charge", "args": {"order": "o", "cents": 5}, "key": "k"}
    try:
        with the_bench.host("payments", trial, witness=relay.path) as host:
            client = McpClient("payments", host.environment())
            relay.hold("after")
            client.tell(call(name="charge", arguments={**keyed["args"], "key": "k"}) + b"\n")
            relay.wait_until_held()
            client.kill()
            relay.let_go(drop=False)
            again = McpClient("payments", host.environment())
            again.initialize()
            assert made(again.send(keyed)) == 1
            assert again.close() == 0
    finally:
        relay.close()
    assert [record["did"] for record in the_bench.records(trial)] == ["acted", "repeated"]


def test_a_receiver_that_is_down_or_silent_is_told_apart(the_bench):
    with the_bench.host(
        "payments", the_bench.trial(), faults=[(ReceiverFault.LOST_REPLY, 1)]
    ) as host:
        client = McpClient("payments", host.environment())
        client.initialize()
        with pytest.raises(ReceiverTimeout, match="may have done it"):
            client.send(MAKES["payments"])
        host.kill()
        with pytest.raises(ReceiverDown, match="was sent nothing"):
            client.send(MAKES["payments"])
        host.start()
        assert made(client.send(MAKES["payments"])) == 2
        assert client.close() == 0


def test_it_says_how_to_name_the_receiver():
    command = [sys.executable, "-P", "-m", "crashpoint.receivers.mcp", "--receiver=tracker"]
    for options, told in ([], "CRASHPOINT_TRACKER is not set"), (["--url=x"], "http://"):
        ran = subprocess.run(
            [*command, *options], env={}, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 2
        assert told in ran.stderr
        assert ran.stdout == ""
