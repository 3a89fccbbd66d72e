"""The `raise` crasher: the job runs in this process and dies of an exception nothing should catch.

Fast, and a smoke test: no process died. After the crash every later save or request of the same
incarnation raises as well and is not performed, whatever the job caught meanwhile.
"""

from __future__ import annotations

import asyncio
import errno
import inspect
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.thread import _worker as _pool_worker
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from types import FrameType, TracebackType
from typing import Any, Final, Generic, Protocol, Self, TypeVar

from crashpoint.inside import points
from crashpoint.inside.points import Crash
from crashpoint.pipeline.crash import Basis
from crashpoint.sweep import scratch
from crashpoint.sweep.words import DISCOVER, Process, Seen, When

__all__ = ["POINTS_MAX", "CopiedWorld", "CopyCrasher", "RaiseCrasher"]

POINTS_MAX: Final = 100_000
"""Points one process may pass before it is said to hang."""
NOTHING_AROUND: Final = nullcontext()
INSIST_S: Final = 0.1
DYING_S: Final = 0.5
"""How long threads of a dead incarnation may take to notice; each does at its next point."""
INSIST_MAX: Final = 50
"""How often a job that catches its own end is ended again before the sweep gives up."""


class CopiedWorld(Protocol):
    """A world that lives in this process and can be copied."""

    def copy(self) -> Any:
        """An equal one that shares nothing that changes."""
        ...

    def key(self) -> Hashable:
        """Equal for equal worlds."""
        ...

    def seen(self) -> Seen:
        """What reached the outside."""
        ...


W = TypeVar("W")
C = TypeVar("C", bound=CopiedWorld)


class RaiseCrasher(Generic[W]):
    """Runs `start` and `resume`, functions of a world, in this process. Use it in a `with`."""

    basis = Basis.IN_PROCESS

    def __init__(
        self,
        *,
        start: Callable[[W], Any],
        resume: Callable[[W], Any],
        limit_s: float,
    ) -> None:
        self._entries = (start, resume)
        self._limit_s = limit_s
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Watch the time and the threads of incarnations from now on."""
        self._stack.enter_context(_clock())
        self._stack.enter_context(_threads())
        self._stack.enter_context(_finalizers())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop watching."""
        self._stack.close()

    def run(self, world: W, *, resume: bool, at: int, fail: bool = False) -> Process:
        """Run one incarnation; see `Crasher.run`."""
        kind = _Failing if fail else _Discovering if at == DISCOVER else _Incarnation
        incarnation = kind(at, time.monotonic() + self._limit_s)
        before = points.listen(incarnation)
        result: Any = None
        said = ""
        try:
            with self.around():
                result = self._entries[resume](world)
                if inspect.isawaitable(result):
                    result = asyncio.run(_awaited(result))
        except Crash:
            self.let_go()
            if not incarnation.dead:
                said = STRAY_THREAD
        except KeyboardInterrupt:
            raise  # is meant for whoever sweeps
        except SystemExit as leaving:
            said = (
                "" if leaving.code is None or leaving.code == 0 else f"SystemExit: {leaving.code}"
            )
        except BaseException as error:  # noqa: BLE001  the job's own failure is a finding, not ours
            said = f"{type(error).__name__}: {error}"
            self.let_go()
        finally:
            is_dead = _end_threads(incarnation) if _busy else incarnation.dead
            points.listen(before)
        return incarnation.process(is_dead=is_dead, said=said, result=result)

    def around(self) -> AbstractContextManager[None]:
        """What a process does at its end is done when this is left."""
        return NOTHING_AROUND

    def let_go(self) -> None:
        """Close what the process has open; its frames still live, so nothing was closed by them."""


class CopyCrasher(RaiseCrasher[C]):
    """The crasher of worlds that can be copied; `fresh` makes an empty one."""

    def __init__(
        self,
        *,
        fresh: Callable[[], C],
        start: Callable[[C], Any],
        resume: Callable[[C], Any],
        limit_s: float = 10.0,
    ) -> None:
        super().__init__(start=start, resume=resume, limit_s=limit_s)
        self.fresh = fresh

    def snapshot(self, world: C) -> C:
        """A copy."""
        copied: C = world.copy()
        return copied

    def restore(self, snapshot: C) -> C:
        """A copy of the copy."""
        copied: C = snapshot.copy()
        return copied

    def key(self, world: C) -> Hashable:
        """The world's own."""
        return world.key()

    def seen(self, world: C) -> Seen:
        """The world's own."""
        return world.seen()

    def drop(self, world: C) -> None:
        """Nothing to give back."""


class _Incarnation:
    """Counts the points of one process; ends it at the one asked for, or when it takes too long."""

    __slots__ = ("at", "dead", "deadline", "hung", "passed", "rings")

    def __init__(self, at: int, deadline: float) -> None:
        self.at = at
        self.deadline = deadline
        self.passed: list[str] = []
        self.dead = False
        self.hung = ""
        self.rings = 0

    def reached(self, name: str) -> None:
        passed = self.passed
        if self.dead or _started:
            self.allow()
        passed.append(name)
        if len(passed) == self.at:
            self.dead = True
            raise Crash
        if len(passed) > POINTS_MAX:
            self.hang(f"it passed more than {POINTS_MAX} points")

    def allow(self) -> None:
        if self.dead or _started.get(threading.get_ident(), self) is not self:
            raise Crash

    def process(self, *, is_dead: bool, said: str, result: Any) -> Process:
        """How it ended: `said` is the error of one that failed."""
        if self.hung:
            return Process(When.HUNG, self.passed, self.hung)
        if is_dead:
            return Process(When.CRASHED, self.passed)
        if said:
            return Process(When.FAILED, self.passed, said)
        return Process(When.ENDED, self.passed, result=result)

    def hang(self, why: str) -> None:
        """End it, again and again if it catches that."""
        self.dead, self.hung = True, why
        self.rings += 1
        if self.rings > INSIST_MAX:
            os.write(last_words_fd, GIVE_UP.encode())
            scratch.clear()
            os._exit(3)
        raise Crash


class _Failing(_Incarnation):
    """Has one write fail at the point asked for; the process goes on."""

    __slots__ = ()

    def reached(self, name: str) -> None:
        at, self.at = self.at, 0
        super().reached(name)
        if len(self.passed) == at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.at = at


class _Discovering(_Incarnation):
    """Lets the process end and notes where it stood."""

    __slots__ = ("calls", "places")

    def __init__(self, at: int, deadline: float) -> None:
        super().__init__(at, deadline)
        self.places: list[str] = []
        self.calls: list[tuple[str, str]] = []

    def heard(self, reply: Any) -> None:
        self.calls += points.calls_in(reply)

    def process(self, *, is_dead: bool, said: str, result: Any) -> Process:
        process = super().process(is_dead=is_dead, said=said, result=result)
        process.places, process.calls = self.places, self.calls
        return process

    def reached(self, name: str) -> None:
        super().reached(name)
        self.places.append(points.place())


GIVE_UP: Final = (
    "crashpoint: the job catches BaseException and does not end; nothing in this process can stop "
    "it. Sweep it with --crash-mode fork.\n"
)

STRAY_THREAD: Final = (
    "a thread that an earlier process started is at work in this one; sweep it with "
    "--crash-mode fork"
)

last_words_fd = 2
"""Where a process that has to give up says so; a test runner that captures 2 sets another one."""

_started: dict[int, _Incarnation] = {}
"""Threads that a job started, by identity: one that outlives its incarnation stays dead with it."""
_busy: dict[threading.Thread, _Incarnation] = {}
"""Those of them that are at work; a pool's threads are so only while they have some."""
_one_less = threading.Condition()


@contextmanager
def _threads() -> Iterator[None]:
    """Remember of each thread that is started which incarnation started it."""
    run = threading.Thread.run

    def run_known(self: threading.Thread) -> None:
        incarnation = points.current()
        if not isinstance(incarnation, _Incarnation):
            run(self)
            return
        _started[threading.get_ident()] = incarnation
        is_pools = getattr(self, "_target", None) is _pool_worker
        try:
            with nullcontext() if is_pools else _at_work(incarnation):
                run(self)
        except Crash:
            pass  # only this thread learns of it here; the others do at their next point
        finally:
            _started.pop(threading.get_ident(), None)

    threading.Thread.run = run_known  # type: ignore[method-assign]
    submit = ThreadPoolExecutor.submit
    ThreadPoolExecutor.submit = _submitting(submit)  # type: ignore[method-assign]
    try:
        yield
    finally:
        threading.Thread.run = run  # type: ignore[method-assign]
        ThreadPoolExecutor.submit = submit  # type: ignore[method-assign]


def _submitting(submit: Callable[..., Any]) -> Callable[..., Any]:
    """Have a pool's thread work for the incarnation that gave it the work, whoever started it."""

    def call(pool: Any, work: Callable[..., Any], /, *args: Any, **options: Any) -> Any:
        incarnation = points.current()
        if not isinstance(incarnation, _Incarnation):
            return submit(pool, work, *args, **options)

        def working() -> Any:
            thread = threading.get_ident()
            before = _started.get(thread)
            _started[thread] = incarnation
            try:
                with _at_work(incarnation):
                    return work(*args, **options)
            finally:
                if before is None:
                    del _started[thread]
                else:
                    _started[thread] = before

        return submit(pool, working)

    return call


@contextmanager
def _at_work(incarnation: _Incarnation) -> Iterator[None]:
    thread = threading.current_thread()
    _busy[thread] = incarnation
    try:
        yield
    finally:
        with _one_less:
            del _busy[thread]
            _one_less.notify_all()


def _end_threads(incarnation: _Incarnation) -> bool:
    """Wait for threads as a process does at its end; those that are left then die with it.

    True if it was dead before, or one of them died.
    """

    def none_left(*, with_daemons: bool) -> bool:
        return not any(
            owner is incarnation and (with_daemons or not thread.daemon)
            for thread, owner in list(_busy.items())
        )

    left_s = incarnation.deadline - time.monotonic()
    incarnation.deadline = math.inf  # this wait has its own end
    with _one_less:
        if not incarnation.dead and not _one_less.wait_for(
            lambda: none_left(with_daemons=False), max(0.0, left_s)
        ):
            incarnation.hung = "a thread that it started does not end"
        was_dead, incarnation.dead = incarnation.dead, True
        _one_less.wait_for(lambda: none_left(with_daemons=True), DYING_S)
        return was_dead


@contextmanager
def _finalizers() -> Iterator[None]:
    """Say nothing of a `__del__` that a dead incarnation may not finish."""
    tell = sys.unraisablehook

    def tell_others(told: Any) -> None:
        if told.exc_type is not Crash:
            tell(told)

    sys.unraisablehook = tell_others
    try:
        yield
    finally:
        sys.unraisablehook = tell


@contextmanager
def _clock() -> Iterator[None]:
    """Look at the time every now and then and end an incarnation that is past its own.

    Only a main thread can be interrupted; elsewhere the number of points is the only limit.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def look(_number: int, _frame: FrameType | None) -> None:
        incarnation = points.current()
        if isinstance(incarnation, _Incarnation) and time.monotonic() > incarnation.deadline:
            incarnation.hang("no end within the time limit")

    before = signal.signal(signal.SIGALRM, look)
    begun = time.monotonic()
    left_s, every_s = signal.setitimer(signal.ITIMER_REAL, INSIST_S, INSIST_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if left_s:
            # Somebody else's alarm, a test's time-out for one: it rings when it would have, or now.
            left_s = max(0.001, left_s - (time.monotonic() - begun))
            signal.setitimer(signal.ITIMER_REAL, left_s, every_s)


async def _awaited(result: Any) -> Any:
    return await result
