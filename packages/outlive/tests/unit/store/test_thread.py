"""Calls made in one thread, in order, whoever still waits for them."""

import asyncio
import threading

import pytest

from outlive.store.thread import DiskThread


@pytest.fixture
def thread():
    made = DiskThread("disk")
    yield made
    made.end()


def test_a_call_returns_and_raises_what_it_did(thread):
    async def use():
        assert await thread.call(max, 3, 7) == 7
        with pytest.raises(ZeroDivisionError):
            await thread.call(lambda: 1 // 0)
        return await thread.call(threading.get_ident)

    assert asyncio.run(use()) != threading.get_ident()


def test_calls_are_made_in_order_even_when_nobody_waits_any_more(thread):
    made = []
    hold = threading.Event()

    async def use():
        held = asyncio.ensure_future(thread.call(hold.wait))
        given_up = asyncio.ensure_future(thread.call(made.append, 1))
        await asyncio.sleep(0)  # both were given
        held.cancel()
        given_up.cancel()
        thread.leave(made.append, 2)
        last = asyncio.ensure_future(thread.call(made.append, 3))
        await asyncio.sleep(0)
        assert made == []
        hold.set()
        await last
        assert given_up.cancelled()

    asyncio.run(use())
    assert made == [1, 2, 3]


def test_what_nobody_is_told_of_may_fail(thread):
    async def use():
        thread.leave(lambda: 1 // 0)
        return await thread.call(lambda: "there")

    assert asyncio.run(use()) == "there"


def test_a_loop_that_closed_meanwhile_is_no_error(thread):
    hold = threading.Event()

    async def use():
        task = asyncio.ensure_future(thread.call(hold.wait))
        await asyncio.sleep(0)
        task.cancel()

    asyncio.run(use())
    hold.set()

    async def after():
        return await thread.call(lambda: "there")

    assert asyncio.run(after()) == "there"


def test_end_waits_for_what_was_given():
    thread = DiskThread("disk")
    hold = threading.Event()
    made = []
    thread.leave(hold.wait)
    thread.leave(made.append, 1)
    ending = threading.Thread(target=thread.end)
    ending.start()
    assert ending.is_alive()
    hold.set()
    ending.join(30)
    assert made == [1]
