"""The controller's side: a daemon that lies, dies in the middle of a word, or does not come up."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from crashpoint.canonical import mac
from crashpoint.ledger.chain import fault_in, trial_key
from crashpoint.ledger.control import Ledger, LedgerFault
from integration.ledger.rig import DEADLINE_S, Peer, attempt, running, seconds

FRAME = """
import sys
from crashpoint.ledger import daemon
from crashpoint.ledger.desk import Desk
{}
sys.exit(daemon.main())
"""


def odd(code: str) -> list[str]:
    """The real daemon with something changed about it."""
    return [sys.executable, "-c", FRAME.format(code)]


def open_fds() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_daemon_that_dies_in_the_middle_of_an_answer_is_a_fault(tmp_path):
    code = """
import os, signal
def half(self, request):
    os.write(int([a for a in sys.argv if a.startswith("--admin-fd=")][0][11:]), b'{"records": [')
    os.kill(os.getpid(), signal.SIGKILL)
Desk._do_peek = half
"""

    async def run():
        async with running(tmp_path, command=odd(code)) as ledger:
            trial = await ledger.open("t-1")
            with pytest.raises(LedgerFault, match=r"the ledger died \(exit -9\)"):
                await seconds(DEADLINE_S, trial.peek())
            assert ledger.died.is_set()

    asyncio.run(run())


@pytest.mark.parametrize(
    "forget",
    ["chain.records.pop()", "chain.records[1] = dict(chain.records[1], hash='0' * 64)"],
)
def test_records_that_were_there_before_must_be_there_again(tmp_path, forget):
    code = f"""
def seal(self, request, real=Desk._do_seal):
    chain = self._trials[request["trial"]].chain
    {forget}
    return {{"records": chain.records, "head": chain.head, "count": len(chain.records)}}
Desk._do_seal = seal
"""

    async def run():
        async with running(tmp_path, command=odd(code)) as ledger:
            trial = await ledger.open("t-1")
            with Peer(ledger.invoke_socket) as subject:
                await asyncio.to_thread(subject.ask, attempt(trial.token))
            assert len(await trial.peek()) == 2
            with pytest.raises(LedgerFault, match=r"held 2 records with head .* not any more"):
                await trial.seal("")

    asyncio.run(run())


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ([sys.executable, "-c", "raise SystemExit('no, thank you')"], "no, thank you"),
        ([sys.executable, "-c", "import os; os.abort()"], r"the ledger died \(exit -6\)"),
        ([sys.executable, "-c", "1 / 0"], "ZeroDivisionError: division by zero"),
    ],
)
def test_a_daemon_that_does_not_come_up_is_a_fault_and_leaves_nothing(tmp_path, command, said):
    before = open_fds()

    async def run():
        await Ledger.start(tmp_path, tmp_path, command=command)

    with pytest.raises(LedgerFault, match=said):
        asyncio.run(run())
    assert open_fds() == before


def test_a_daemon_that_says_nothing_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr("crashpoint.ledger.control.READY_S", 0.2)
    pids = []

    async def run():
        silent = [sys.executable, "-c", "import signal; signal.pause()"]
        await Ledger.start(tmp_path, tmp_path, command=silent, adopt=pids.append)

    with pytest.raises(LedgerFault, match="did not answer within 0 s"):
        asyncio.run(run())
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


def test_everything_is_let_go_of_at_the_end(tmp_path):
    before = open_fds()

    async def run():
        async with running(tmp_path) as ledger:
            for n in range(3):
                await (await ledger.open(f"t-{n}")).seal("")
                await ledger.restart()

    asyncio.run(run())
    assert open_fds() == before


def test_each_daemon_is_announced_to_whoever_cleans_up(tmp_path):
    pids = []

    async def run():
        async with running(tmp_path, adopt=pids.append) as ledger:
            assert pids == [ledger.pid]
            await ledger.restart()
            assert pids[1:] == [ledger.pid]

    asyncio.run(run())


def test_many_questions_at_once_each_get_their_own_answer(tmp_path):
    async def run():
        async with running(tmp_path) as ledger:
            trials = await asyncio.gather(*(ledger.open(f"t-{n}") for n in range(50)))
            return await asyncio.gather(*(trial.seal(f"{n}") for n, trial in enumerate(trials)))

    for n, chain in enumerate(asyncio.run(run())):
        assert (chain.trial, chain.records[-1]["note"]) == (f"t-{n}", f"{n}")
        assert fault_in(chain.trial, chain.key, chain.records) is None


def test_a_run_key_that_is_given_decides_every_key(tmp_path):
    key = bytes(range(32))

    async def run():
        async with running(tmp_path, run_key=key) as ledger:
            assert ledger.run_key == key
            return await (await ledger.open("t-1")).seal("")

    chain = asyncio.run(run())
    assert chain.key == trial_key(key, "t-1")
    assert chain.records[0]["mac"] == mac(chain.key, "record", chain.records[0]["hash"])


def test_a_question_that_is_refused_is_a_fault_and_the_ledger_goes_on(tmp_path):
    async def run():
        async with running(tmp_path) as ledger:
            trial = await ledger.open("t-1")
            with pytest.raises(LedgerFault, match="ledger: trial 't-1' was opened before"):
                await ledger.open("t-1")
            await trial.seal("")
            with pytest.raises(LedgerFault, match="ledger: no open trial 't-1'"):
                await trial.seal("")
            await ledger.open("t-2")

    asyncio.run(run())
