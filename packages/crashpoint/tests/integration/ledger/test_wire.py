"""Whatever a subject says, or does not, the daemon answers clearly or hangs up, and stays up."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from crashpoint.ledger import daemon
from crashpoint.ledger.control import Ledger, LedgerFault
from integration.ledger.rig import DEADLINE_S, Peer, attempt, in_file, running, seconds


def talk(tmp_path, scenario, **options):
    """Run a scenario, which blocks, against a daemon with one open trial; check that it is well."""

    async def run():
        async with running(tmp_path, **options) as ledger:
            trial = await ledger.open("t-1")
            before = len(await trial.peek())
            result = await asyncio.to_thread(scenario, ledger, trial)
            assert not ledger.died.is_set()
            with Peer(ledger.invoke_socket) as other:
                assert "receipt" in await asyncio.to_thread(other.ask, attempt(trial.token))
            records = await trial.peek()
            assert in_file(ledger) == records
            return result, records[before:-1]

    return asyncio.run(run())


MANY = b"x" * (2 << 20)


@pytest.mark.parametrize(
    ("said", "answered"),
    [
        (b"garbage\n", "not JSON that can be kept: Expecting value"),
        (b"\n", "not JSON"),
        (b"\r\n", "not JSON"),
        (b"\xff\xfe\x00\n", "not JSON"),
        (b"\0\n", "not JSON"),
        (b'{"trial":"\0"}\n', "not JSON"),
        (b"GET / HTTP/1.1\n", "not JSON"),
        (b"[]\n", "a request is one JSON object on one line"),
        (b"null\n", "a request is one JSON object on one line"),
        (b'{"do":"seal","trial":"t-1","note":"","seq":1}\n', "unknown member 'do'"),
        (b'{"a":1,"a":2}\n', "key 'a' stands twice"),
        (b'{"action":NaN}\n', "NaN is not JSON"),
        (b'{"action":1e999}\n', "beyond a 64-bit float"),
        (b'{"action":"\\ud800"}\n', "surrogates not allowed"),
        (b'{"effect":"\\ud800"}\n', "surrogates not allowed"),
        (b"[" * 10_000 + b"]" * 10_000 + b"\n", "nested deeper than 64"),
        (b'{"a":' * 10_000 + b"\n", "nested deeper than 64"),
        (b"9" * 10_000 + b"\n", "not JSON that can be kept"),
        (MANY + b"\n", "a request line holds at most 1048576 bytes"),
        (b'{"action":"' + MANY + b'"}\n', "a request line holds at most 1048576 bytes"),
    ],
)
def test_nonsense_gets_one_clear_error_and_the_peer_may_go_on(tmp_path, said, answered):
    def scenario(ledger: Ledger, trial):
        with Peer(ledger.invoke_socket) as peer:
            refusal = peer.ask(said)
            assert "receipt" in peer.ask(attempt(trial.token))
            return refusal

    refusal, records = talk(tmp_path, scenario)
    assert list(refusal) == ["error"]
    assert answered in refusal["error"]
    assert "\n" not in refusal["error"]
    assert [record["kind"] for record in records] == ["attempt"]


def test_the_longest_line_is_taken_and_one_byte_more_is_not(tmp_path):
    def scenario(ledger: Ledger, trial):
        with Peer(ledger.invoke_socket) as peer:
            room = daemon.LINE_MAX - len(attempt(trial.token, action="")) + 1
            taken = peer.ask(attempt(trial.token, action="x" * room))
            return taken, peer.ask(attempt(trial.token, action="x" * (room + 1)))

    (taken, refused), records = talk(tmp_path, scenario)
    assert "receipt" in taken
    assert "error" in refused
    assert len(records) == 1


def test_a_request_in_pieces_is_one_request(tmp_path):
    def scenario(ledger: Ledger, trial):
        with Peer(ledger.invoke_socket) as peer:
            for byte in attempt(trial.token):
                peer.say(bytes([byte]))
            return peer.hear()

    reply, records = talk(tmp_path, scenario)
    assert "receipt" in reply
    assert len(records) == 1


def test_several_requests_in_one_piece_are_answered_in_order(tmp_path):
    def scenario(ledger: Ledger, trial):
        with Peer(ledger.invoke_socket) as peer:
            peer.say(attempt(trial.token) + b"x\n" + attempt(trial.token))
            peer.stop_saying()
            return [list(peer.hear()) for _ in range(3)] + [peer.hear()]

    heard, records = talk(tmp_path, scenario)
    assert heard == [["receipt"], ["error"], ["receipt"], None]
    assert len(records) == 2


def test_half_a_line_and_gone_leaves_nothing(tmp_path):
    def scenario(ledger: Ledger, trial):
        for cut in (1, 10, -1):
            with Peer(ledger.invoke_socket) as peer:
                peer.say(attempt(trial.token)[:cut])

    _, records = talk(tmp_path, scenario)
    assert records == []


def test_gone_before_the_reply_is_an_attempt_all_the_same(tmp_path):
    async def run():
        async with running(tmp_path) as ledger:
            trial = await ledger.open("t-1")
            with Peer(ledger.invoke_socket) as peer:
                peer.say(attempt(trial.token))
            # Read in the order in which they were sent, so this answer comes after it.
            with Peer(ledger.invoke_socket) as peer:
                await asyncio.to_thread(peer.ask, attempt(trial.token))
            return len((await trial.seal("")).records)

    assert asyncio.run(run()) == 4


def test_five_hundred_peers_of_which_most_say_nothing(tmp_path):
    def scenario(ledger: Ledger, trial):
        peers = [Peer(ledger.invoke_socket) for _ in range(500)]
        try:
            for peer in peers[::50]:
                peer.say(attempt(trial.token))
            return [peer.hear() for peer in peers[::50]]
        finally:
            for peer in peers:
                peer.close()

    heard, records = talk(tmp_path, scenario)
    assert all("receipt" in reply for reply in heard)
    assert len(records) == 10


def test_a_peer_that_reads_no_reply_is_held_up_and_nobody_else(tmp_path):
    def scenario(ledger: Ledger, trial):
        with Peer(ledger.invoke_socket) as deaf:
            took = deaf.fill(attempt(trial.token, action="x" * 300), 8 << 20)
            with Peer(ledger.invoke_socket) as other:
                assert "receipt" in other.ask(attempt(trial.token))
            return took

    took, _ = talk(tmp_path, scenario)
    assert 100_000 < took < 4 << 20


def test_a_peer_that_floods_is_hung_up_on(tmp_path):
    def scenario(ledger: Ledger, trial):
        before = memory_kb(ledger.pid)
        with Peer(ledger.invoke_socket) as flood:
            took = flood.fill(b"x\n" * 50_000, 64 << 20)
            assert flood.hear() is None
        return took, memory_kb(ledger.pid) - before

    (took, grown), records = talk(tmp_path, scenario)
    assert took < 8 << 20
    assert grown < 20_000
    assert records == []


def memory_kb(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(status.partition("VmRSS:")[2].split()[0])


def test_a_peer_that_never_ends_its_line_costs_no_more_than_one_line(tmp_path):
    def scenario(ledger: Ledger, trial):
        before = memory_kb(ledger.pid)
        with Peer(ledger.invoke_socket) as endless:
            for _ in range(32):
                endless.say(b"x" * (1 << 20))
            grown = memory_kb(ledger.pid) - before
            return grown, endless.ask(b"\n")

    (grown, refusal), records = talk(tmp_path, scenario)
    assert grown < 12_000
    assert "at most" in refusal["error"]
    assert records == []


def test_more_peers_than_can_be_served_are_hung_up_on(tmp_path):
    few = (
        "import sys; from crashpoint.ledger import daemon; daemon.CONNECTIONS_MAX = 3; "
        "sys.exit(daemon.main())"
    )

    def scenario(ledger: Ledger, trial):
        peers = [Peer(ledger.invoke_socket) for _ in range(3)]
        assert "receipt" in peers[2].ask(attempt(trial.token))
        with Peer(ledger.invoke_socket) as one_more:
            assert one_more.hear() is None
        for peer in peers:
            peer.close()
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            with Peer(ledger.invoke_socket) as another:
                if another.ask(attempt(trial.token)) is not None:
                    return
        pytest.fail("nobody is served any more")

    talk(tmp_path, scenario, command=[sys.executable, "-c", few])


def test_the_witness_socket_knows_its_own_tokens_only(tmp_path):
    def scenario(ledger: Ledger, trial):
        with Peer(ledger.witness_socket) as peer:
            asked = [
                {"token": trial.token},
                {"token": trial.token, "append": 1},
                {"token": trial.witness, "append": {"got": 1}},
                {"token": trial.witness},
            ]
            return [peer.ask(json.dumps(each).encode() + b"\n") for each in asked]

    heard, records = talk(tmp_path, scenario)
    assert [list(reply) for reply in heard] == [["error"], ["error"], ["n"], ["records"]]
    assert heard[3]["records"] == [{"got": 1}]
    assert [record["kind"] for record in records] == ["witness"]


def test_the_kernel_says_who_a_peer_is(tmp_path):
    me = {"pid": os.getpid(), "uid": os.getuid(), "gid": os.getgid()}

    def scenario(ledger: Ledger, trial):
        with Peer(ledger.invoke_socket) as peer:
            peer.ask(attempt(trial.token, action={"pid": 1, "uid": 12345}))

    _, records = talk(tmp_path, scenario)
    assert me.items() <= records[0]["peer"].items()
    assert records[0]["peer"]["start"] > 0


def test_a_daemon_without_a_controller_ends_and_its_sockets_answer_nobody(tmp_path):
    async def run():
        async with running(tmp_path) as ledger:
            await ledger.open("t-1")
            pid = ledger.pid
            await ledger.close()
            assert ledger.died.is_set()
            assert ledger._process.returncode == 0
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)
            with pytest.raises(ConnectionRefusedError):
                Peer(ledger.invoke_socket)

    asyncio.run(run())


def test_the_daemon_dies_with_a_controller_that_is_killed(tmp_path):
    code = """
import asyncio, sys
from pathlib import Path
from crashpoint.ledger.control import Ledger
async def main():
    ledger = await Ledger.start(Path(sys.argv[1]), Path(sys.argv[1]))
    print(ledger.pid, flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE) as it:
        pid = int(it.stdout.readline())
        ended = os.pidfd_open(pid)
        it.kill()

        async def gone():
            event = asyncio.Event()
            asyncio.get_running_loop().add_reader(ended, event.set)
            await seconds(DEADLINE_S, event.wait())

        asyncio.run(gone())
        os.close(ended)


@pytest.mark.parametrize("mode", [0o600, 0o666])
def test_only_those_who_may_reach_the_sockets(tmp_path, mode):
    def scenario(ledger: Ledger, trial):
        return [
            path.stat().st_mode & 0o777 for path in (ledger.invoke_socket, ledger.witness_socket)
        ]

    modes, _ = talk(tmp_path, scenario, invoke_mode=mode)
    assert modes == [mode, 0o600]


def test_a_daemon_that_is_stopped_does_not_stop_the_controller(tmp_path, monkeypatch):
    monkeypatch.setattr("crashpoint.ledger.control.ANSWER_S", 0.2)
    monkeypatch.setattr("crashpoint.ledger.control.LEAVE_S", 0.2)

    async def run():
        async with running(tmp_path) as ledger:
            trial = await ledger.open("t-1")
            os.kill(ledger.pid, signal.SIGSTOP)
            with pytest.raises(LedgerFault, match=rf"process {ledger.pid}\) did not answer"):
                await trial.seal("")

    asyncio.run(run())


def test_sockets_that_cannot_be_made_are_one_line(tmp_path):
    (tmp_path / "file").write_bytes(b"")

    async def run():
        await Ledger.start(tmp_path, tmp_path / "file")

    with pytest.raises(LedgerFault, match=r"^crashpoint ledger: cannot listen on .*invoke\.sock"):
        asyncio.run(run())


def test_a_file_that_is_no_ledger_is_one_line(tmp_path):
    (tmp_path / "ledger.jsonl").write_bytes(b"{}\nnonsense\n")

    async def run():
        await Ledger.start(tmp_path, tmp_path)

    with pytest.raises(LedgerFault, match=r"^crashpoint ledger: .*ledger\.jsonl line 2: not JSON"):
        asyncio.run(run())
