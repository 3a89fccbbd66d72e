"""A real engine over a store in memory, runners on links in memory, and a clock that jumps.

`Bench` holds the store, the engine and its runners; `Told` is a runner that says exactly what a
test tells it to, `Real` one that is the SDK's session. Frames are encoded and decoded both ways.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import json
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Self, TypeVar
from urllib.parse import quote

import msgspec

from fake_engine import BASE_MS, CODEC, JumpLoop, Threads
from outlive.sdk.app import App
from outlive.sdk.session import Session
from outlive.server.asgi import Asgi
from outlive.server.engine import Engine, Leases
from outlive.store.api import Commit, Due, Key, Record, Store, StoreFault
from outlive.store.memory import MemoryStore
from outlive.wire import asks
from outlive.wire import native_v1 as w

M = TypeVar("M")
WITHIN_S = 120.0
"""How long, by the clock that jumps, something may take that has to happen."""
pack = msgspec.msgpack.encode
unpack = msgspec.msgpack.decode
NIL = b"\xc0"


def _asks(call: str, kind: str, **about: Any) -> Callable[[w.Dispatch, int], w.FromRunner]:
    return lambda given, epoch: w.Ask(given.run, epoch, call, kind, pack(about))


SAID: dict[str, Callable[[w.Dispatch, int], w.FromRunner]] = {
    "started": lambda given, epoch: w.Started(given.run, epoch, "s#0"),
    "done": lambda given, epoch: w.Done(given.run, epoch, "s#0", 1, True, NIL),
    "failed": lambda given, epoch: w.Done(given.run, epoch, "s#0", 1, False, NIL),
    "refused": lambda given, epoch: w.Done(given.run, epoch, "s#0", 1, True, NIL, True),
    "tried": lambda given, epoch: w.Tried(given.run, epoch, "s#0", 1, NIL, 0),
    "sleep": _asks("e#0", "sleep", for_ms=1),
    "event": _asks("e#0", "event", name="e"),
    "emit": _asks("e#0", "emit", name="e", id="1", data=NIL),
    "child": _asks("e#0", "child", workflow="flow", input=NIL),
    "approve": _asks("e#0", "approve", title="t", details=NIL, digest="d"),
    "mark": _asks("s#0", "mark", key="k", dialect="keyed"),
    "nonsense": _asks("e#0", "nonsense"),
    "suspend": lambda given, epoch: w.Suspend(given.run, epoch, given.last_seq),
    "finish": lambda given, epoch: w.Finish(given.run, epoch, given.last_seq, "completed", NIL),
    "park": lambda given, epoch: w.Park(given.run, epoch, "why"),
}
"""Every message about a run, for a run that was given and an epoch."""


class InlineThread:
    """In place of the store's own thread: nothing may jump while that is at work."""

    def __init__(self, name: str) -> None:
        del name

    async def call(self, call: Callable[..., Any], *args: Any) -> Any:
        return call(*args)

    def leave(self, call: Callable[..., Any], *args: Any) -> None:
        call(*args)

    def end(self) -> None:
        """Nothing is left to do."""


def jumping(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test's coroutine on a loop whose time jumps; no task may end with an error unseen."""

    @functools.wraps(test)
    def run(*args: Any, **options: Any) -> None:
        loop = JumpLoop()
        unseen: list[Any] = []
        loop.set_exception_handler(lambda _loop, context: unseen.append(context))
        try:
            loop.run_until_complete(asyncio.wait_for(test(*args, **options), 20_000))
        finally:
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(asyncio.sleep(0))
            loop.close()
        assert not unseen, unseen

    return run


class JumpClock:
    """The loop's time; `wall_back_ms` sets the wall clock back, and the steady one goes on."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.wall_back_ms = 0

    def wall_ms(self) -> int:
        return BASE_MS + int(self._loop.time() * 1000) - self.wall_back_ms

    def steady_s(self) -> float:
        return self._loop.time()


class Watched:
    """A store that can hold commits back, and fail before or after it has made them."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.faults: list[str] = []
        """For the next calls of apply: "" for none, `before`, `after`, `read` for the next read."""
        self.dead = False
        """A process that was killed does nothing more."""
        self.applied: list[Commit] = []
        self.opens = 0
        self._gate = asyncio.Event()
        self._gate.set()
        self._never = asyncio.Event()

    def hold(self) -> None:
        self._gate.clear()

    def let_go(self) -> None:
        self._gate.set()

    async def _alive(self) -> None:
        if self.dead:
            await self._never.wait()

    async def open(self) -> None:
        self.opens += 1
        await self.inner.open()

    async def close(self) -> None:
        if not self.dead:
            await self.inner.close()

    async def apply(self, batch: Sequence[Commit]) -> Sequence[bool]:
        await self._gate.wait()
        await self._alive()
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "before":
            raise StoreFault("disk full")
        made = await self.inner.apply(batch)
        self.applied += batch
        if fault == "after":
            raise StoreFault("the sync failed")
        return made

    async def _read(self) -> None:
        await self._alive()
        await asyncio.sleep(0)  # as a real one may, it lets others go first
        if self.faults and self.faults[0] == "read":
            self.faults.pop(0)
            raise StoreFault("cannot be read")

    async def load(self, keys: Sequence[Key]) -> list[Record | None]:
        await self._read()
        return await self.inner.load(keys)

    async def entries(self, run_no: int, after: int = -1) -> list[bytes]:
        await self._read()
        return await self.inner.entries(run_no, after)

    async def due(self, until_ms: int, limit: int) -> list[Due]:
        await self._read()
        return await self.inner.due(until_ms, limit)

    async def next_due(self) -> int | None:
        await self._read()
        return await self.inner.next_due()

    async def page(self, kind: str, tag: str | None, after: int, limit: int) -> list[Record]:
        await self._read()
        return await self.inner.page(kind, tag, after, limit)


class Wire:
    """A link in memory: what is sent in one turn of the loop is heard as one frame in the next."""

    def __init__(self, heard: Callable[[list[w.ToRunner]], None], lost: Callable[[], None]) -> None:
        self._heard = heard
        self._lost = lost
        self.ended: Callable[[], None] = lambda: None
        """Tells the engine's side that the link is gone."""
        self._waiting: list[w.ToRunner] = []
        self._flushing = False
        self.closing = False
        self.up = True

    def send(self, message: w.ToRunner) -> None:
        if self.up:
            self._waiting.append(message)
        self._soon()

    async def room(self) -> None:
        """There is always room."""

    def close(self) -> None:
        self.closing = True
        self._soon()

    def _soon(self) -> None:
        if not self._flushing:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        if not self.up:
            return
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._heard(w.from_engine(w.packed(waiting)))
        if self.closing:
            self.cut()

    def cut(self) -> None:
        if self.up:
            self.up = False
            self.ended()
            self._lost()


class Told:
    """A runner that says what it is told; `heard` is what it was answered, in order."""

    def __init__(self, bench: Bench, app: str, options: dict[str, Any]) -> None:
        self.bench = bench
        self.app = app
        self.options = options
        self.heard: list[Any] = []
        self.session = self.token = ""
        self.up = False
        self.have: dict[str, w.Have] = {}
        """What it was given and was not told to let go of."""
        self._epochs: dict[str, int] = {}
        self._beats = itertools.count(1)
        self._read = 0
        self._news = asyncio.Event()

    def dial(self) -> None:
        """A new connection, without a word."""
        wire = self.wire = Wire(self._hear, lambda: self._gone(wire))
        self.up = True
        peer = self.peer = self.bench.engine.connect(self.wire)
        wire.ended = peer.closed

    def _hear(self, messages: list[w.ToRunner]) -> None:
        self.heard += messages
        for message in messages:
            self._keep(message)
        self._news.set()

    def _keep(self, message: w.ToRunner) -> None:
        if isinstance(message, w.Dispatch):
            last = message.entries[-1].seq if message.entries else 0
            self.have[message.run] = w.Have(message.run, message.epoch, last)
        elif isinstance(message, w.Evict):
            self.have.pop(message.run, None)
        elif isinstance(message, w.Entry):
            had = self.have.get(message.run)
            if had is not None and message.seq == had.seq + 1:
                self.have[message.run] = w.Have(message.run, message.epoch, message.seq)

    def lives(self) -> None:
        """Beat from now on, with what it has."""
        if self.up:
            self.beat(*self.have.values())
            asyncio.get_running_loop().call_later(2, self.lives)

    def _gone(self, wire: Wire) -> None:
        if wire is self.wire:
            self.up = False
            self._news.set()

    async def hello(self, **options: Any) -> Any:
        """Dial, say hello, and what is answered."""
        self.dial()
        self.say(
            w.Hello(
                **{
                    "app": self.app,
                    "workflows": {"flow": []},
                    "runner": "told",
                    "room": 10,
                    **self.options,
                    **options,
                }
            )
        )
        answer = await self.hear(w.Welcome, w.Refused)
        if isinstance(answer, w.Welcome):
            self.session, self.token = answer.session, answer.token
        return answer

    async def back(self, *have: w.Have, **options: Any) -> Any:
        """Come back with the session it had."""
        return await self.hello(session=self.session, token=self.token, have=list(have), **options)

    def say(self, *messages: w.FromRunner) -> None:
        """One frame, heard at once."""
        if self.up:
            self.peer.received(w.from_runner(w.packed(messages)))

    def cut(self) -> None:
        """The connection breaks."""
        self.wire.cut()

    def beat(self, *have: w.Have) -> int:
        number = next(self._beats)
        self.say(w.Beat(number, list(have)))
        return number

    async def hear(self, *kinds: type[M], within_s: float = WITHIN_S, **fields: Any) -> M:
        """The next message of these kinds with these fields; those before it are passed over."""

        def found() -> Any:
            while self._read < len(self.heard):
                message = self.heard[self._read]
                self._read += 1
                if isinstance(message, kinds) and all(
                    getattr(message, name) == value for name, value in fields.items()
                ):
                    return message
            return None

        return await self._until(found, within_s)

    async def _until(self, found: Callable[[], Any], within_s: float = WITHIN_S) -> Any:
        async with asyncio.timeout(within_s):
            while (message := found()) is None:
                self._news.clear()
                await self._news.wait()
        return message

    async def gone(self) -> None:
        """Return when the connection has ended."""
        async with asyncio.timeout(WITHIN_S):
            while self.up:
                self._news.clear()
                await self._news.wait()

    def after(self) -> list[Any]:
        """What it heard since it last looked."""
        new = self.heard[self._read :]
        self._read = len(self.heard)
        return new

    # --- about a run that it was given ---

    async def given(self, run: str = "r1") -> w.Dispatch:
        """The run as it was given out anew since this was last asked; passes over nothing."""

        def found() -> w.Dispatch | None:
            after = self._epochs.get(run, 0)
            for message in self.heard:
                if isinstance(message, w.Dispatch) and message.run == run and message.epoch > after:
                    self._epochs[run] = message.epoch
                    return message
            return None

        return await self._until(found)

    def done(self, given: w.Dispatch, call: str, value: Any = None, **more: Any) -> w.Done:
        fields = {"attempt": 1, "ok": True, "value": CODEC.encode(value), **more}
        message = w.Done(given.run, given.epoch, call, **fields)
        self.say(message)
        return message

    def ask(self, given: w.Dispatch, call: str, kind: str, **about: Any) -> w.Ask:
        what = pack(asks.ASKS[kind](**about))
        message = w.Ask(given.run, given.epoch, call, kind, what)
        self.say(message)
        return message

    async def asked(self, given: w.Dispatch, call: str, kind: str, **about: Any) -> w.Entry:
        self.ask(given, call, kind, **about)
        return await self.hear(w.Entry, run=given.run, call=call)

    def suspend(self, given: w.Dispatch, seq: int) -> None:
        self.say(w.Suspend(given.run, given.epoch, seq))

    def finish(
        self, given: w.Dispatch, seq: int, outcome: str = "completed", value: Any = None
    ) -> None:
        self.say(w.Finish(given.run, given.epoch, seq, outcome, CODEC.encode(value)))


class Real:
    """A runner that is the SDK's own session."""

    def __init__(self, bench: Bench, app: App, options: dict[str, Any]) -> None:
        loop = asyncio.get_running_loop()
        self.bench = bench
        self.app = app
        self.threads = Threads(loop)
        self.session = Session(
            app,
            loop=loop,
            threads=self.threads,
            clock=loop.time,
            **{"runner": "real", **options},
        )
        self.session.output = self._output
        self.session.hang_up = self.cut
        self.said: list[Any] = []
        self.heard: list[Any] = []
        self.lose: Callable[[Any], bool] = lambda _message: False
        self.redials = True
        self._saying = False

    def dial(self) -> None:
        self.wire = Wire(self._hear, self._gone)
        self.peer = self.bench.engine.connect(self.wire)
        self.wire.ended = self.peer.closed
        self.session.opened()

    def _hear(self, messages: list[w.ToRunner]) -> None:
        messages = [message for message in messages if not self.lose(message)]
        self.heard += messages
        asyncio.get_running_loop().call_soon(self.session.receive, messages)

    def _gone(self) -> None:
        self.session.closed()
        if self.redials and not self.session.refused and not self.session.over:
            asyncio.get_running_loop().call_later(0.05, self.dial)

    def cut(self) -> None:
        self.wire.cut()

    def kill(self) -> None:
        """The process dies: what it runs is never heard of again."""
        self.redials = False
        self.session.lose()
        self.cut()

    def _output(self) -> None:
        if not self._saying:
            self._saying = True
            asyncio.get_running_loop().call_soon(self._say)

    def _say(self) -> None:
        self._saying = False
        if self.wire.up and (messages := self.session.take()):
            messages = w.from_runner(w.packed([m for m in messages if not self.lose(m)]))
            self.said += messages
            self.peer.received(messages)


class _Log(logging.Handler):
    def __init__(self, defects: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._defects = defects

    def emit(self, record: logging.LogRecord) -> None:
        self._defects.append(self.format(record))


class Bench:
    """`async with Bench() as bench`: an engine that is ready."""

    def __init__(self, store: Store | None = None, **leases: Any) -> None:
        self.inner = store or MemoryStore()
        self.leases = Leases(**leases)
        self.clock = JumpClock(asyncio.get_running_loop())
        self.runners: list[Any] = []
        self._dead: list[Engine] = []
        self.defects: list[str] = []
        """What the engine had to say of itself; none may be left at the end."""

    async def __aenter__(self) -> Self:
        self._log = _Log(self.defects)
        logging.getLogger("outlive.engine").addHandler(self._log)
        await self.open()
        return self

    async def __aexit__(self, kind: object, *_error: object) -> None:
        for runner in self.runners:
            runner.redials = False
        self.store.let_go()
        await self.engine.close()
        logging.getLogger("outlive.engine").removeHandler(self._log)
        if kind is None:
            assert not self.defects

    async def open(self) -> None:
        """An engine on the store."""
        self.store = Watched(self.inner)
        self.engine = Engine(self.store, clock=self.clock, leases=self.leases)
        await self.engine.open()

    async def kill(self) -> None:
        """The engine's process dies, and one that knows only the store takes its place."""
        engine, self.store.dead = self.engine, True
        self._dead.append(engine)
        engine._closed, engine.ready = True, False
        engine.timer.stop()
        for task in (*engine._tasks, engine.records.committer._task):
            if task is not None:
                task.cancel()
        for runner in self.runners:
            runner.cut()
        await self.turn()
        await self.inner.close()
        await self.open()

    def runner(self, app: str = "a", **options: Any) -> Told:
        self.runners.append(runner := Told(self, app, options))
        return runner

    async def ready_runner(self, app: str = "a", **options: Any) -> Told:
        runner = self.runner(app, **options)
        answer = await runner.hello()
        assert isinstance(answer, w.Welcome), answer
        return runner

    def real(self, app: App, **options: Any) -> Real:
        self.runners.append(runner := Real(self, app, options))
        runner.dial()
        return runner

    async def start(self, run: str = "r1", workflow: str = "flow", value: Any = None) -> Any:
        row, _ = await self.engine.start("a", workflow, run, CODEC.encode(value))
        return row

    async def given(self, run: str = "r1", **options: Any) -> tuple[Told, w.Dispatch]:
        """A runner, and a run that it has."""
        runner = await self.ready_runner(**options)
        await self.start(run)
        given = await runner.given(run)
        runner.after()
        return runner, given

    async def row(self, run: str = "r1") -> Any:
        return await self.engine.run(run)

    async def record(self, run: str = "r1") -> list[str]:
        """The stored record, as `kind call`."""
        from outlive.server.book import Stored

        bodies = await self.inner.entries((await self.row(run)).no)
        entries = [msgspec.msgpack.decode(body, type=Stored) for body in bodies[1:]]
        return [f"{entry.kind} {entry.call}".strip() for entry in entries]

    async def turn(self, times: int = 50) -> None:
        """Let everything happen that needs no timer."""
        for _ in range(times):
            await asyncio.sleep(0)

    async def until(self, holds: Callable[[], Any], within_s: float = WITHIN_S) -> Any:
        """Return when it holds; time goes on meanwhile."""
        async with asyncio.timeout(within_s):
            while not (found := holds()):
                await asyncio.sleep(0.01)
        return found

    async def state(self, state: str, run: str = "r1", within_s: float = WITHIN_S) -> Any:
        """The run once it is in that state."""
        row = await self.row(run)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while row.state != state:
                    await asyncio.sleep(0.01)
                    row = await self.row(run)
        assert row.state == state, (row.state, row.cause)
        return row

    async def http(
        self, method: str, path: str, body: Any = None, *, raw_query: bytes = b"", **query: Any
    ) -> tuple[int, Any]:
        """What the HTTP API answers."""
        raw = (
            body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        )
        said: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": raw, "more_body": False}

        async def send(message: Any) -> None:
            said.append(message)

        asked = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in query.items())
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": quote(path, safe="/%").encode(),
            "query_string": raw_query or asked.encode(),
            "headers": [],
        }
        await Asgi(self.engine)(scope, receive, send)
        return said[0]["status"], json.loads(said[1]["body"])
