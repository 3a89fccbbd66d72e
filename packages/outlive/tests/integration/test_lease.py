"""What becomes of a process whose lease is kept: with a real process, and an engine that waits."""

import asyncio
import signal
import sys

from outlive.supervise.children import Children
from outlive.supervise.lease import Keeper
from outlive.supervise.reports import Told

OVER = b'{"error":"it has ended"}'
REFUSAL = b"HTTP/1.1 410 Gone\r\ncontent-length: %d\r\n\r\n%s" % (len(OVER), OVER)
TTL_MS = 60_000
END_S = 30


class Refusing:
    """An engine that answers a renewal once `answer` is set: the session is over."""

    def __init__(self):
        self.asked = asyncio.Event()
        self.answer = asyncio.Event()
        self.answered = asyncio.Event()

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *_):
        self.answer.set()
        await self.answered.wait()
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        self.asked.set()
        await self.answer.wait()
        writer.write(REFUSAL)
        await reader.read()  # until the other side has read it, and hangs up
        writer.close()
        await writer.wait_closed()
        self.answered.set()


async def kept(use):
    children = Children()
    child = children.start([sys.executable, "-c", "import signal; signal.pause()"])
    try:
        async with Refusing() as engine, asyncio.timeout(END_S):
            keeper = Keeper(child, engine.url)
            running = asyncio.create_task(keeper.run())
            keeper.hold(Told(child.pid, "session", "token", TTL_MS))
            await engine.asked.wait()
            await use(engine, keeper, child)
            running.cancel()
    finally:
        children.close()


def test_a_session_that_is_over_ends_its_process():
    async def use(engine, keeper, child):
        engine.answer.set()
        assert await child.ended == -signal.SIGKILL

    asyncio.run(kept(use))


def test_a_process_that_said_goodbye_ends_in_peace():
    async def use(engine, keeper, child):
        keeper.let_go()
        engine.answer.set()
        await engine.answered.wait()
        # What a renewal in the same state would have done was done a turn after its answer.
        other = asyncio.create_task(asyncio.to_thread(lambda: None))
        await other
        assert child.alive
        child.send(signal.SIGTERM)
        assert await child.ended == -signal.SIGTERM
        assert keeper.told is not None, "its death can still be confirmed"

    asyncio.run(kept(use))
