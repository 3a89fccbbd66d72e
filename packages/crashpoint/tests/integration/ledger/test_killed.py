"""The daemon is killed at each of its writes: nothing acknowledged is lost, nothing is twice."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from crashpoint.inside import client
from crashpoint.inside.client import BenchRefused
from crashpoint.ledger.book import FILE_NAME
from crashpoint.ledger.chain import fault_in
from crashpoint.ledger.control import Ledger, LedgerFault
from crashpoint.ledger.oracle import count
from crashpoint.model import Outcome
from integration.ledger.rig import DEADLINE_S, Peer, attempt, in_file, running, seconds, subject_env

PLACES = ("before", "half", "after", "synced")
ATTEMPTS = 24
"""Of one process, one after the other: with opening and sealing, 26 writes."""


def dying(where: str, number: int) -> list[str]:
    return [sys.executable, str(Path(__file__).with_name("dying_daemon.py")), where, str(number)]


async def revived(ledger: Ledger, where: str) -> None:
    """Wait for the daemon's death; the next one answers once and dies at its second write."""
    await seconds(DEADLINE_S, ledger.died.wait())
    assert ledger._process.returncode == -signal.SIGKILL
    await ledger.restart(dying(where, 2))


@pytest.fixture
def line(monkeypatch):
    """The real client's connection, which dies with the test."""
    line = client._Line("CRASHPOINT_LEDGER")
    yield line
    line._renew()


@pytest.mark.parametrize("where", PLACES)
def test_at_every_write_of_one_trial(tmp_path, where, line, monkeypatch):
    async def scenario():
        async with running(tmp_path, command=dying(where, 1)) as ledger:
            monkeypatch.setenv("CRASHPOINT_LEDGER", str(ledger.invoke_socket))
            with pytest.raises(LedgerFault, match=r"the ledger died \(exit -9\)"):
                await ledger.open("t-1")
            await ledger.restart(dying(where, 1 if where in ("after", "synced") else 2))
            trial = await ledger.open("t-1")
            acknowledged = {}
            for n in range(ATTEMPTS):
                request = {
                    "trial": trial.token,
                    "id": f"id-{n}",
                    "effect": f"e-{n}",
                    "key": None,
                    "action": {"n": n, "padding": "x" * 40 * n},
                }
                with pytest.raises(BenchRefused, match="CRASHPOINT_LEDGER: the bench is gone"):
                    await asyncio.to_thread(line.ask, request)
                await revived(ledger, where)
                acknowledged[request["id"]] = await asyncio.to_thread(line.ask, request)
            with pytest.raises(LedgerFault):
                await trial.seal("note")
            await ledger.restart()
            return acknowledged, await trial.seal("note"), in_file(ledger)

    acknowledged, chain, written = asyncio.run(scenario())
    assert chain.records == written
    assert fault_in(chain.trial, chain.key, chain.records) is None
    kinds = [record["kind"] for record in chain.records[1:-1]]
    lost = where in ("before", "half")
    assert kinds == ["attempt"] * ATTEMPTS if lost else ["attempt", "resend"] * ATTEMPTS
    ids = [record["id"] for record in chain.records[1:-1] if record["kind"] == "attempt"]
    assert ids == list(acknowledged), "each acknowledged one is there, and none twice"
    assert len({reply["receipt"] for reply in acknowledged.values()}) == ATTEMPTS
    counted = count(chain, [f"e-{n}" for n in range(ATTEMPTS)])
    assert counted.outcome is Outcome.EXACTLY_ONCE


CROWD = 4
EACH = 6

ONE_OF_A_CROWD = f"""
import json, sys
from crashpoint.inside import client
name, token = sys.argv[1:]
for n in range({EACH}):
    own = f"{{name}}-{{n}}"
    request = {{"trial": token, "id": own, "effect": f"e-{{own}}", "action": n}}
    while True:
        try:
            receipt = client._ledger.ask(request)["receipt"]
            break
        except client.BenchRefused:
            sys.stdin.readline()  # until there is a daemon again
    print(json.dumps([own, receipt]), flush=True)
"""


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("number", [2, 3, 5, 1 + EACH])
def test_in_the_middle_of_a_batch_of_several_processes(tmp_path, where, number):
    async def scenario():
        async with running(tmp_path, command=dying(where, number)) as ledger:
            trial = await ledger.open("t-1")
            crowd = [
                subprocess.Popen(
                    [sys.executable, "-c", ONE_OF_A_CROWD, str(n), trial.token],
                    env={**os.environ, **subject_env(ledger, trial.token)},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
                for n in range(CROWD)
            ]
            await seconds(DEADLINE_S, ledger.died.wait())
            await ledger.restart()
            said = await asyncio.gather(
                *(asyncio.to_thread(each.communicate, "go\n", DEADLINE_S) for each in crowd)
            )
            assert [each.returncode for each in crowd] == [0] * CROWD
            return [json.loads(line) for out, _ in said for line in out.splitlines()], (
                await trial.seal("note")
            )

    acknowledged, chain = asyncio.run(scenario())
    assert len(acknowledged) == CROWD * EACH
    attempts = [record["id"] for record in chain.records if record["kind"] == "attempt"]
    assert sorted(attempts) == sorted(name for name, _ in acknowledged)
    wanted = [f"e-{name}" for name in attempts]
    assert count(chain, wanted).outcome is Outcome.EXACTLY_ONCE


def test_killed_from_outside_a_trial_goes_on_and_receipts_stay(tmp_path, line, monkeypatch):
    async def scenario():
        async with running(tmp_path) as ledger:
            monkeypatch.setenv("CRASHPOINT_LEDGER", str(ledger.invoke_socket))
            trial = await ledger.open("t-1")
            request = json.loads(attempt(trial.token, effect="charge"))
            first = await asyncio.to_thread(line.ask, request)
            assert len(await trial.peek()) == 2
            os.kill(ledger.pid, signal.SIGKILL)
            await seconds(DEADLINE_S, ledger.died.wait())
            with pytest.raises(LedgerFault, match=r"the ledger died \(exit -9\)"):
                await trial.peek()
            await ledger.restart()
            assert await asyncio.to_thread(line.ask, request) == first
            return await trial.seal("note")

    chain = asyncio.run(scenario())
    assert [r["kind"] for r in chain.records] == ["open", "attempt", "resend", "seal"]
    assert count(chain, ["charge"]).outcome is Outcome.EXACTLY_ONCE


def cut_the_tail(path: Path) -> None:
    *lines, _last = path.read_bytes().partition(b"\0")[0].splitlines(keepends=True)
    path.write_bytes(b"".join(lines))


def change_a_digit(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"action":1', b'"action":2'))


def delete_a_record(path: Path) -> None:
    lines = path.read_bytes().partition(b"\0")[0].splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:1], *lines[2:]]))


@pytest.mark.parametrize("harm", [cut_the_tail, change_a_digit, delete_a_record])
def test_a_file_that_was_changed_while_no_daemon_held_it_is_not_believed(tmp_path, harm):
    async def scenario():
        async with running(tmp_path) as ledger:
            trial = await ledger.open("t-1")
            with Peer(ledger.invoke_socket) as subject:
                for _ in range(3):
                    assert "receipt" in await asyncio.to_thread(subject.ask, attempt(trial.token))
            os.kill(ledger.pid, signal.SIGKILL)
            await seconds(DEADLINE_S, ledger.died.wait())
            harm(ledger.folder / FILE_NAME)
            for _ in range(2):
                with pytest.raises(LedgerFault, match="changed while no daemon held it"):
                    await ledger.restart()
            with pytest.raises(LedgerFault):
                await trial.seal("note")

    asyncio.run(scenario())
