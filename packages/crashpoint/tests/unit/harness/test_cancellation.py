"""An interruption is not lost when an answer arrives at the same moment."""

import asyncio

import pytest

from crashpoint.ledger.control import Ledger


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
