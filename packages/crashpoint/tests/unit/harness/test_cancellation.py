"""An interruption is not lost: not to an answer that comes at the same moment, not to an error."""

import asyncio
from contextlib import suppress
from itertools import repeat
from types import SimpleNamespace

import pytest

from crashpoint.harness import run as run_module
from crashpoint.ledger.control import Ledger
from crashpoint.procs.zygote import Subject


def test_a_trial_that_is_cancelled_while_the_ledger_answers():
    async def scenario():
        answer = asyncio.get_running_loop().create_future()
        asking = asyncio.create_task(Ledger.__new__(Ledger)._within(answer, 10.0))
        await asyncio.sleep(0)
        answer.set_result({"records": []})
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    asyncio.run(scenario())


def test_a_trial_that_is_cancelled_while_its_keeper_ends():
    async def scenario():
        subject = Subject.__new__(Subject)
        subject._channel = SimpleNamespace(shutdown=lambda how: None)
        subject._gone = asyncio.Event()
        releasing = asyncio.create_task(subject.release())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        subject._gone.set()
        releasing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await releasing

    asyncio.run(scenario())


def test_a_trial_that_ends_although_it_was_cancelled_is_the_last(monkeypatch):
    begun, both = [], None

    async def stubborn(plan, stage):
        begun.append(plan)
        if len(begun) == 2:
            both.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return SimpleNamespace(verdict=None)

    monkeypatch.setattr(run_module, "run_trial", stubborn)
    monkeypatch.setattr(run_module, "_record", lambda sealed, barrier: {})
    partial = SimpleNamespace(add=lambda record: None)
    work = SimpleNamespace(stages={"e": None}, partial=partial, trials=[], references={})

    async def scenario():
        nonlocal both
        both = asyncio.Event()
        plans = repeat(("e", "b1", SimpleNamespace(row=None), []))
        running = asyncio.create_task(run_module._all(work, plans, 2))
        await both.wait()
        running.cancel()
        await asyncio.wait({running}, timeout=10)
        assert running.cancelled()

    asyncio.run(scenario())
    assert len(begun) == 2
