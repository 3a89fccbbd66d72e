"""An engine in memory and a clock that jumps, for the tests of the SDK."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future
from typing import Any

import msgspec

from outlive.sdk.app import App
from outlive.sdk.session import Session
from outlive.wire import asks
from outlive.wire import native_v1 as w
from outlive.wire.values import Codec

BASE_MS = 1_800_000_000_000
TTL_MS = 6000
CODEC = Codec()
pack = msgspec.msgpack.encode


class JumpLoop(asyncio.SelectorEventLoop):
    """When nothing is ready, it is at once the time of the next timer; nothing ever sleeps."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0

    def time(self) -> float:
        return self.now

    def _run_once(self) -> None:
        if not self._ready:
            if not self._scheduled:
                raise AssertionError("nothing is ready and no timer stands: a deadlock")
            self.now = max(self.now, self._scheduled[0]._when)
        super()._run_once()


def jumping(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test's coroutine on a JumpLoop."""

    @functools.wraps(test)
    def run(*args: Any, **options: Any) -> None:
        loop = JumpLoop()
        try:
            loop.run_until_complete(asyncio.wait_for(test(*args, **options), 1_000_000))
        finally:
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(asyncio.sleep(0))
            loop.close()

    return run


class Threads(Executor):
    """Calls at the loop's next turn, or, with `hold`, when `release` says so."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.hold = False
        self.held: list[Callable[[], Any]] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        call = functools.partial(fn, *args, **kwargs)
        if self.hold:
            self.held.append(call)
        else:
            self.loop.call_soon(call)
        return Future()

    def release(self) -> None:
        held, self.held = self.held, []
        for call in held:
            self.loop.call_soon(call)


class Run:
    """What the engine keeps of a run."""

    def __init__(self, run: str, workflow: str, value: Any) -> None:
        self.id = run
        self.workflow = workflow
        self.input = CODEC.encode(value)
        self.record: list[w.Entry] = []
        self.epoch = 0
        self.state = "queued"
        self.outcome: tuple[str, bytes] | None = None
        self.cause = ""
        self.ended: set[str] = set()
        self.tries: dict[str, int] = {}
        self.again: dict[str, int] = {}
        self.open: dict[str, w.Ask] = {}
        self.done = asyncio.Event()

    @property
    def result(self) -> Any:
        assert self.outcome is not None, (self.state, self.cause)
        kind, value = self.outcome
        return CODEC.decode(value) if kind == "completed" else CODEC.decode_error(value)

    def kinds(self) -> list[str]:
        return [f"{entry.kind} {entry.call}".strip() for entry in self.record]


class Fake:
    """Answers a session as docs/protocol.md says; `lose` may drop messages of either side."""

    def __init__(self, app: App, **options: Any) -> None:
        self.loop = asyncio.get_running_loop()
        self.app = app
        self.threads = Threads(self.loop)
        self.runs: dict[str, Run] = {}
        self.said: list[Any] = []
        self.frames: list[list[Any]] = []
        self.lose: Callable[[Any], bool] = lambda _message: False
        self.hold_entries = False
        self.held: list[Any] = []
        self.sessions = 0
        self.keep_session = True
        self.up = True
        self.sleeps_fire = True
        self.hung_up = 0
        self.sink: list[Any] = []
        self._coming = False
        self.session = self.new_session(**options)

    def new_session(self, **options: Any) -> Session:
        self.session = Session(
            self.app,
            loop=self.loop,
            threads=self.threads,
            clock=self.loop.time,
            runner="test",
            **options,
        )
        self.session.output = self.output
        self.session.hang_up = self.hang_up
        return self.session

    # --- the link ---

    def connect(self) -> None:
        self.up = True
        self.session.opened()

    def cut(self) -> None:
        self.up = False
        self.session.closed()

    def hang_up(self) -> None:
        self.hung_up += 1
        self.up = False

    def output(self) -> None:
        if not self._coming:
            self._coming = True
            self.loop.call_soon(self._carry)

    def _carry(self) -> None:
        self._coming = False
        if not self.up:
            return
        messages = self.session.take()
        if messages:
            messages = w.from_runner(w.packed(messages))
            self.frames.append(messages)
        for message in messages:
            self.said.append(message)
            if not self.lose(message):
                self._hear(message)

    def send(self, *messages: Any) -> None:
        messages = tuple(m for m in messages if not self.lose(m))
        if self.up and messages:
            self.sink += messages
            if len(self.sink) == len(messages):
                self.loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        messages, self.sink = self.sink, []
        if self.up:
            self.session.receive(w.from_engine(w.packed(messages)))

    # --- the engine ---

    def now_ms(self) -> int:
        return BASE_MS + int(self.loop.time() * 1000)

    def start(self, workflow: str, value: Any = None, run: str = "run-1") -> Run:
        self.runs[run] = found = Run(run, workflow, value)
        self.dispatch(found)
        return found

    def restore(self, run: str, workflow: str, record: list[w.Entry]) -> Run:
        """A run as an engine would know it from its record alone; not dispatched yet."""
        self.runs[run] = found = Run(run, workflow, None)
        found.record = list(record)
        found.ended = {e.call for e in record if e.kind in ("done", "met", "emitted")}
        for entry in record:
            if entry.call in found.ended:
                continue
            if entry.kind == "tried":
                found.tries[entry.call] = entry.attempt
                found.again[entry.call] = _again_ms(entry.value)
            elif entry.kind == "asked" and entry.value:
                kind, about, _ = msgspec.msgpack.decode(entry.value)
                found.open[entry.call] = w.Ask(run, 0, entry.call, kind, about)
                if kind == "sleep" and self.sleeps_fire:
                    self.loop.call_later(3600, self._wake, found, entry.call)
        return found

    def dispatch(self, run: Run, *, inline: int | None = None) -> None:
        run.epoch += 1
        run.state = "running"
        entries = [msgspec.structs.replace(e, epoch=run.epoch) for e in run.record]
        cut = len(entries) if inline is None else inline
        self.send(
            w.Dispatch(
                run.id, run.epoch, run.workflow, run.input, BASE_MS, len(entries), entries[:cut]
            ),
            *entries[cut:],
        )

    def entry(
        self,
        run: Run,
        kind: str,
        call: str,
        *,
        ok: bool = True,
        value: bytes = b"",
        attempt: int = 0,
        echo: bool = False,
    ) -> w.Entry:
        made = w.Entry(
            run.id, run.epoch, len(run.record) + 1, kind, call, self.now_ms(), ok, value, attempt
        )
        run.record.append(made)
        if kind in ("done", "met", "emitted"):
            run.ended.add(call)
            run.again.pop(call, None)
            run.open.pop(call, None)
        if run.state == "suspended":
            self.dispatch(run)
        elif run.state == "running":
            sent = msgspec.structs.replace(made, value=b"") if echo else made
            if self.hold_entries:
                self.held.append(sent)
            else:
                self.send(sent)
        return made

    def let_go(self) -> None:
        held, self.held = self.held, []
        self.hold_entries = False
        self.send(*held)

    def meet(self, run: Run, call: str, value: Any = None, *, ok: bool = True) -> None:
        self.entry(run, "met", call, ok=ok, value=CODEC.encode(value))

    def cancel(self, run: Run) -> None:
        self.entry(run, "cancelling", "")

    def _hear(self, message: Any) -> None:
        if isinstance(message, w.Hello):
            if not (self.keep_session and message.session):
                self.sessions += 1
            self.send(w.Welcome(f"s{self.sessions}", "t", TTL_MS, self.now_ms()))
            for had in message.have:
                self._catch_up(had)
        elif isinstance(message, w.Beat):
            self.send(w.Accepted(message.number, self.now_ms()))
            for had in message.have:
                self._catch_up(had)
        elif not isinstance(message, w.Bye):
            self._of_run(message)

    def _catch_up(self, had: w.Have) -> None:
        run = self.runs[had.run]
        if run.epoch != had.epoch or run.state != "running":
            self.send(w.Evict(had.run, had.epoch))
        else:
            missing = run.record[had.seq :]
            self.send(*(msgspec.structs.replace(e, epoch=run.epoch) for e in missing))

    def _of_run(self, message: Any) -> None:
        run = self.runs[message.run]
        if run.epoch != message.epoch or run.state != "running":
            self.send(w.Evict(message.run, message.epoch))
        elif isinstance(message, w.Done):
            if message.call not in run.ended:
                kind = "refused" if message.refused else "done"
                self.entry(
                    run,
                    kind,
                    message.call,
                    ok=message.ok,
                    value=message.value,
                    attempt=message.attempt,
                    echo=True,
                )
        elif isinstance(message, w.Tried):
            if run.tries.get(message.call, 0) < message.attempt:
                run.tries[message.call] = message.attempt
                run.again[message.call] = message.again_ms
                value = pack([message.again_ms, message.error])
                self.entry(
                    run, "tried", message.call, ok=False, value=value, attempt=message.attempt
                )
        elif isinstance(message, w.Ask):
            self._ask(run, message)
        elif isinstance(message, w.Suspend | w.Finish):
            if message.seq == len(run.record):
                self._leave(run, message)
        elif isinstance(message, w.Park):
            run.state, run.cause = "parked", message.cause
            run.done.set()
            self.send(w.Evict(run.id, run.epoch))

    def _leave(self, run: Run, message: Any) -> None:
        if isinstance(message, w.Suspend):
            run.state = "suspended"
            if run.again:
                due_s = (min(run.again.values()) - self.now_ms()) / 1000
                self.loop.call_later(max(due_s, 0), self._retry, run, run.epoch)
        else:
            run.state, run.outcome = "ended", (message.outcome, message.value)
            run.done.set()
        self.send(w.Evict(run.id, run.epoch))

    def _ask(self, run: Run, message: w.Ask) -> None:
        if message.call in run.ended or message.call in run.open:
            return
        what = asks.read(message.kind, message.about)
        if isinstance(what, asks.Emit):
            self.entry(run, "emitted", message.call)
            return
        run.open[message.call] = message
        self.entry(run, "asked", message.call, value=pack([message.kind, message.about, None]))
        if isinstance(what, asks.Sleep) and self.sleeps_fire:
            due_s = (
                what.for_ms / 1000
                if what.for_ms is not None
                else ((what.until_ms or 0) - self.now_ms()) / 1000
            )
            self.loop.call_later(max(due_s, 0), self._wake, run, message.call)

    def _retry(self, run: Run, epoch: int) -> None:
        if run.state == "suspended" and run.epoch == epoch:
            self.dispatch(run)

    def _wake(self, run: Run, call: str) -> None:
        if run.state in ("running", "suspended"):
            self.meet(run, call)

    # --- for tests ---

    async def turn(self, times: int = 50) -> None:
        """Let everything happen that needs no timer."""
        for _ in range(times):
            await asyncio.sleep(0)

    async def play(self, workflow: str, value: Any = None, run: str = "run-1") -> Run:
        """Connect, start a run and wait for its end."""
        if not self.session.welcomed:
            self.connect()
            await self.turn()
        found = self.start(workflow, value, run)
        await found.done.wait()
        await self.turn()
        return found


def _again_ms(value: bytes) -> int:
    found = msgspec.msgpack.decode(value)
    return found[0] if isinstance(found, list) else 0


def told(fake: Fake, kind: type) -> list[Any]:
    """What the runner said of a kind."""
    return [message for message in fake.said if isinstance(message, kind)]
