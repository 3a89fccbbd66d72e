"""A runner's session with an engine: messages in, messages out, and no I/O.

Time comes from `loop.call_later` and `clock`, so that a simulation can be both. What the drivers
send is kept by them until it is answered: nothing here relies on a message arriving.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Final

from outlive.sdk.app import App
from outlive.sdk.bodies import Said
from outlive.sdk.calls import Attempt
from outlive.sdk.driver import Driver
from outlive.wire.native_v1 import (
    Accepted,
    Beat,
    Bye,
    Dispatch,
    Entry,
    Evict,
    FromRunner,
    Have,
    Hello,
    Park,
    Refused,
    Started,
    ToRunner,
    Welcome,
)

__all__ = ["OnSession", "Session"]

OnSession = Callable[[str, str, int], object]
"""Told a session's id, its token and its ttl in milliseconds; all empty before a goodbye."""

GONE_MAX: Final = 10_000
_log = logging.getLogger("outlive.sdk")


class Session:
    """The runs that an engine gave to this process, under one lease.

    A link calls `opened`, then `receive` for what comes, `take` whenever `output` was called, and
    `closed`; `hang_up` asks it to close. `receive` must be called from a plain callback of `loop`,
    never in a task. `clock` gives seconds that go on while the machine sleeps. With `supervised` a
    process beside this one renews the lease and ends this one in time, so that a late answer to a
    beat is not taken for the end of the session.
    """

    def __init__(
        self,
        app: App,
        *,
        loop: asyncio.AbstractEventLoop,
        threads: Executor,
        clock: Callable[[], float],
        runner: str,
        room: int = 1000,
        key: str = "",
        versions: dict[str, str] | None = None,
        replay_always: bool = False,
        supervised: bool = False,
        on_session: OnSession | None = None,
    ) -> None:
        self.app = app
        self.loop = loop
        self.threads = threads
        self.runner = runner
        self.beat = 0
        self.draining = False
        self.drivers: dict[str, Driver] = {}
        """Run id -> the run."""
        self.id = ""
        self.token = ""
        self.refused = ""
        """Why the engine turned this runner away for good."""
        self.welcomed = False
        """Whether the link is up and the engine has answered."""
        self.links = 0
        """How often it was welcomed."""
        self.over = False
        """Whether it said goodbye."""
        self.output: Callable[[], object] = lambda: None
        """Called when `take` has something."""
        self.hang_up: Callable[[], object] = lambda: None
        """Called when the link is to be closed."""
        self.changed: Callable[[], object] = lambda: None
        """Called, while draining, when `running` or `owed` may have changed."""
        self._clock = clock
        self._room = room
        self._key = key
        self._versions = versions or {}
        self._replay_always = replay_always
        self._supervised = supervised
        self._on_session = on_session
        self._open = False
        self._receiving = False
        self._out: list[FromRunner] = []
        self._starting: list[Attempt] = []
        self._gone: dict[str, int] = {}
        """Run -> greatest epoch that was evicted: an old dispatch of it may still be on its way."""
        self._ttl_s = 0.0
        self._lease_end_s = 0.0
        self._hello_s = 0.0
        self._sent_s: dict[int, float] = {}
        """Beat without an answer -> when it was sent."""
        self._base = (0, 0.0)
        """The engine's milliseconds, and our clock when we heard of them."""
        self._timers: tuple[asyncio.TimerHandle, ...] = ()

    # --- the link ------------------------------------------------------------------------------

    def opened(self) -> None:
        """The link is up: say hello."""
        self._check_lease()
        self._open = True
        self.welcomed = False
        self._hello_s = self._clock()
        self._starting.clear()
        self._out = [
            Hello(
                app=self.app.name,
                workflows={name: list(flow.on) for name, flow in self.app.workflows.items()},
                runner=self.runner,
                room=self._room,
                session=self.id,
                token=self.token,
                key=self._key,
                versions=self._versions,
                have=self._have(),
            )
        ]
        self.output()

    def closed(self) -> None:
        """The link is down. The runs go on: the session may return within its lease."""
        self._open = self.welcomed = False
        self._out.clear()
        self._starting.clear()

    def receive(self, messages: Sequence[ToRunner]) -> None:
        """Take what one frame brought."""
        if not self._open:
            return
        drivers = self.drivers
        self._receiving = True
        try:
            for message in messages:
                if type(message) is Entry:
                    driver = drivers.get(message.run)
                    if driver is not None and driver.epoch == message.epoch:
                        try:
                            driver.entry(message)
                        except Exception as error:  # noqa: BLE001  one run's, never all
                            self._broken(driver, error)
                elif self._open:
                    self._other(message)
        finally:
            self._receiving = False
        if self._out or self._starting:
            self.output()
        if self.draining:
            self.changed()

    def take(self) -> list[FromRunner]:
        """What is to be sent now, in order."""
        if not self._open or self._check_lease():
            return []
        messages, self._out = self._out, []
        if self._starting and self.welcomed:
            starting, self._starting = self._starting, []
            for attempt in starting:
                if not attempt.ended and not attempt.dropped:
                    messages.append(Started(attempt.run_id, attempt.epoch, attempt.call.name))
        return messages

    # --- what drivers need ---------------------------------------------------------------------

    def put(self, message: Said) -> None:
        """Send it if the link is up; else its driver sends it again."""
        if self.welcomed:
            self._out.append(message)
            if not self._receiving:
                self.output()

    def now_ms(self) -> int:
        """See bodies.Host."""
        at_ms, heard_s = self._base
        return at_ms + int((self._clock() - heard_s) * 1000)

    def started(self, attempt: Attempt) -> None:
        """See bodies.Host."""
        if self.welcomed:
            self._starting.append(attempt)
            if not self._receiving:
                self.output()

    def ended(self) -> None:
        """See bodies.Host."""
        if self.draining:
            self.loop.call_soon(self.changed)

    # --- ending --------------------------------------------------------------------------------

    @property
    def running(self) -> int:
        """Bodies that run now."""
        return sum(len(driver.bodies) for driver in self.drivers.values())

    @property
    def owed(self) -> int:
        """Results that were sent and are not recorded yet, as far as is known."""
        return sum(driver.owed for driver in self.drivers.values())

    def bye(self) -> None:
        """End the session: everything is dropped, and the engine gives it to others."""
        self._drop_all()
        self.over = True
        if self._on_session is not None:
            # Whoever renews the lease must not take what the engine says after it for a loss.
            self._on_session("", "", 0)
        if self.welcomed:
            self._out.append(Bye())
            self.output()

    def lose(self) -> None:
        """Take the session for ended: drop everything and send nothing more for it."""
        self._drop_all()
        self.id = self.token = ""
        self._out.clear()
        if self._open:
            self.closed()
            self.hang_up()

    def _drop_all(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers = ()
        self._sent_s.clear()
        self._gone.clear()
        drivers, self.drivers = self.drivers, {}
        for driver in drivers.values():
            driver.drop()
        self._starting.clear()

    # --- messages ------------------------------------------------------------------------------

    def _other(self, message: ToRunner) -> None:
        if isinstance(message, Welcome):
            self._welcome(message)
        elif isinstance(message, Refused):
            self.refused = message.cause or "the engine refused without a reason"
            self.lose()
        elif not self.welcomed:
            return
        elif isinstance(message, Dispatch):
            self._dispatch(message)
        elif isinstance(message, Evict):
            self._evict(message)
        elif isinstance(message, Accepted):
            self._accepted(message)

    def _welcome(self, message: Welcome) -> None:
        if self.welcomed:
            return
        if message.session != self.id:
            if self.id:
                _log.warning("session %s has ended, %s begins", self.id, message.session)
            self._drop_all()
        self.id = message.session
        self.token = message.token
        self.welcomed = True
        self.links += 1
        self._ttl_s = message.ttl_ms / 1000
        self._base = (message.now_ms, self._clock())
        self._lease_end_s = self._hello_s + self._ttl_s
        for timer in self._timers:
            timer.cancel()
        self._timers = (
            self._later(self._ttl_s / 3, self._tick),
            self._later(self._ttl_s, self._expire),
        )
        if self._on_session is not None:
            self._on_session(message.session, message.token, message.ttl_ms)
        for driver in list(self.drivers.values()):
            self._starting += driver.bodies
            driver.again(self.beat + 1)

    def _accepted(self, message: Accepted) -> None:
        sent_s = self._sent_s.get(message.number)
        if sent_s is None:
            return
        self._sent_s = {n: at for n, at in self._sent_s.items() if n > message.number}
        self._lease_end_s = max(self._lease_end_s, sent_s + self._ttl_s)
        self._base = (message.now_ms, self._clock())

    def _dispatch(self, message: Dispatch) -> None:
        run = message.run
        old = self.drivers.get(run)
        if self.draining or self._gone.get(run, -1) >= message.epoch:
            return
        if old is not None:
            if old.epoch >= message.epoch:
                return
            del self.drivers[run]
            old.drop()
        flow = self.app.workflows.get(message.workflow)
        if flow is None:
            there = ", ".join(sorted(self.app.workflows)) or "none"
            cause = f"no workflow {message.workflow!r} in app {self.app.name!r}: it has {there}"
            self.put(Park(run, message.epoch, cause))
            return
        driver = Driver(
            flow,
            message,
            codec=self.app.codec,
            retry=self.app.retry,
            send=self.put,
            host=self,
            replay_always=self._replay_always,
        )
        self.drivers[run] = driver
        try:
            driver.start()
        except Exception as error:  # noqa: BLE001  as in receive
            self._broken(driver, error)

    def _evict(self, message: Evict) -> None:
        run = message.run
        driver = self.drivers.get(run)
        if driver is not None and driver.epoch <= message.epoch:
            del self.drivers[run]
            driver.drop()
        if message.epoch > self._gone.get(run, -1):
            self._gone.pop(run, None)
            self._gone[run] = message.epoch
            if len(self._gone) > GONE_MAX:
                del self._gone[next(iter(self._gone))]

    def _broken(self, driver: Driver, error: Exception) -> None:
        """A fault of ours stops one run, and no other."""
        _log.error("run %s: %r", driver.run, error, exc_info=error)
        self.drivers.pop(driver.run, None)
        driver.drop()
        self.put(Park(driver.run, driver.epoch, f"the runner failed: {error!r}"))

    # --- the lease -----------------------------------------------------------------------------

    def _have(self) -> list[Have]:
        return [driver.have() for driver in self.drivers.values()]

    def _later(self, delay_s: float, call: Callable[[], None]) -> asyncio.TimerHandle:
        return self.loop.call_later(max(delay_s, 0.001), call)

    def _tick(self) -> None:
        if self._check_lease():
            return
        if self.welcomed:
            self.beat += 1
            self._sent_s[self.beat] = self._clock()
            self._out.append(Beat(self.beat, self._have()))
            for driver in self.drivers.values():
                driver.again(self.beat - 1)
            self.output()
        self._timers = (self._later(self._ttl_s / 3, self._tick), self._timers[1])

    def _expire(self) -> None:
        if not self._check_lease():
            left_s = self._lease_end_s - self._clock()
            # A supervised session outlives what its own clock says, so look again in a while.
            left_s = left_s if left_s > 0 else self._ttl_s / 3
            self._timers = (self._timers[0], self._later(left_s, self._expire))

    def _check_lease(self) -> bool:
        """Whether the session has just been found over."""
        if self._supervised or not self.id or self._clock() < self._lease_end_s:
            return False
        _log.warning("session %s was not renewed for %g s: it has ended", self.id, self._ttl_s)
        self.lose()
        return True
