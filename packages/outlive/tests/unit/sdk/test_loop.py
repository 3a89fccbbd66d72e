"""The loop of workflow code: in order, and nothing but what a replay can repeat."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import socket

import pytest

from outlive.sdk.errors import NeverQuiescent, NotDeterministic
from outlive.sdk.loop import WorkflowLoop


def drained(coroutine, loop=None):
    """Run a coroutine on a workflow loop from a plain callback of a real loop; its task."""
    loop = WorkflowLoop() if loop is None else loop
    task = loop.create_task(coroutine)
    run(loop)
    return task


def run(loop):
    raised = []

    async def outer():
        done = asyncio.Event()

        def callback():
            try:
                loop.run_until_quiescent()
            except BaseException as error:
                raised.append(error)
            assert asyncio.get_running_loop() is real
            done.set()

        real = asyncio.get_running_loop()
        real.call_soon(callback)
        await done.wait()

    asyncio.run(outer())
    if raised:
        raise raised[0]


def test_everything_of_asyncio_that_needs_no_clock_works():
    log = []

    async def worker(name, queue, lock):
        while (item := await queue.get()) is not None:
            async with lock:
                log.append((name, item))
                await asyncio.sleep(0)
        return name

    async def main():
        queue, lock, event = asyncio.Queue(2), asyncio.Lock(), asyncio.Event()

        async def waiter():
            await event.wait()
            return "told"

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(worker(n, queue, lock)) for n in "ab"]
            waiting = group.create_task(waiter())
            for item in range(4):
                await queue.put(item)
            for _ in "ab":
                await queue.put(None)
            event.set()
        done, left = await asyncio.wait({asyncio.ensure_future(waiter())})
        assert not left
        assert await asyncio.wait_for(waiter(), None) == "told"
        async with asyncio.timeout(None):
            pass
        got = await asyncio.gather(waiter(), *(asyncio.shield(waiter()) for _ in range(2)))
        return [task.result() for task in tasks], waiting.result(), done.pop().result(), got

    assert drained(main()).result() == (["a", "b"], "told", "told", ["told"] * 3)
    assert [item for _, item in log] == [0, 1, 2, 3]


def test_callbacks_run_first_in_first_out():
    loop, log = WorkflowLoop(), []
    for n in range(5):
        loop.call_soon(log.append, n)
    loop.call_soon(log.append, "never").cancel()
    run(loop)
    assert log == [0, 1, 2, 3, 4]


def test_contextvars_are_a_tasks_own():
    var = contextvars.ContextVar("var", default="out")

    async def inner():
        var.set("in")

    async def main():
        await asyncio.create_task(inner())
        return var.get()

    assert drained(main()).result() == "out"


def refused():
    loop = asyncio.get_running_loop
    return {
        "sleep": lambda: asyncio.sleep(1),
        "timeout": lambda: _within(asyncio.timeout(5)),
        "wait_for": lambda: asyncio.wait_for(asyncio.sleep(0), 5),
        "to_thread": lambda: asyncio.to_thread(print),
        "open_connection": lambda: asyncio.open_connection("127.0.0.1", 1),
        "start_server": lambda: asyncio.start_server(print, "127.0.0.1", 0),
        "subprocess": lambda: asyncio.create_subprocess_exec("true"),
        "shell": lambda: asyncio.create_subprocess_shell("true"),
        "getaddrinfo": lambda: loop().getaddrinfo("localhost", 80),
        "sock": lambda: loop().sock_recv(socket.socket(), 1),
        "reader": lambda: loop().add_reader(0, print),
        "signal": lambda: loop().add_signal_handler(15, print),
        "threadsafe": lambda: loop().call_soon_threadsafe(print),
        "run": lambda: loop().run_until_complete(None),
    }


async def _within(manager):
    async with manager:
        pass


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore:coroutine .*:RuntimeWarning")
@pytest.mark.parametrize("name", refused())
def test_what_a_replay_could_not_repeat_is_refused_with_the_remedy(name):
    async def main():
        found = refused()[name]()
        if found is not None:
            await found

    error = drained(main()).exception()
    assert isinstance(error, NotDeterministic)
    assert "instead: " in str(error)
    assert "\n" not in str(error)
    if name in ("sleep", "timeout", "wait_for"):
        assert "ctx.step.sleep" in str(error)
    gc.collect()


def test_code_that_is_never_quiescent_is_stopped():
    async def main():
        while True:
            await asyncio.sleep(0)

    with pytest.raises(NeverQuiescent, match="1,000 times"):
        drained(main(), loop := WorkflowLoop(callbacks_max=1000))
    loop.close()


def test_time_is_that_of_the_record():
    loop = WorkflowLoop()
    loop.now_s = 12.5

    async def main():
        return asyncio.get_running_loop().time()

    assert drained(main(), loop).result() == 12.5


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_a_base_exception_stays_in_its_task(error):
    async def main():
        raise error

    assert drained(main()).exception() is error


def test_closing_ends_code_where_it_stands():
    log = []

    async def child():
        try:
            await asyncio.Event().wait()
        finally:
            log.append("child")

    async def main():
        keep = asyncio.create_task(child())
        try:
            await keep
        except Exception:
            log.append("never")
        finally:
            log.append("main")
            await asyncio.sleep(0)  # would go on: is ended here

    loop = WorkflowLoop()
    task = drained(main(), loop)
    loop.close()
    loop.close()
    assert sorted(log) == ["child", "main"]
    assert not loop.ready
    assert not task.done()


def test_an_async_generator_left_behind_touches_no_outer_loop():
    async def numbers():
        yield 1
        yield 2

    async def main():
        async for number in numbers():
            return number
        return None

    assert drained(main()).result() == 1
    gc.collect()
