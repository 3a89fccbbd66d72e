"""What a runner says, message by message: judged by epoch alone, decided at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from outlive.core.tables import RUN, Run, RunEvent, SessionEvent
from outlive.server.book import NIL
from outlive.server.live import LiveRun, LiveSession
from outlive.server.records import Draft
from outlive.wire.native_v1 import (
    Accepted,
    Ask,
    Beat,
    Bye,
    Done,
    Evict,
    Finish,
    Park,
    Started,
    Suspend,
    Tried,
)
from outlive.wire.values import VALUE_MAX

if TYPE_CHECKING:
    from outlive.server.engine import Engine

__all__ = ["HANDLERS"]

CAUSE_MAX: Final = 4096
OUTCOMES: Final = {
    "completed": RunEvent.COMPLETE,
    "failed": RunEvent.FAIL,
    "cancelled": RunEvent.END_CANCELLED,
}
_pack = msgspec.msgpack.Encoder().encode
TOO_LARGE: Final = _pack(["outlive:TooLarge", f"an error of more than {VALUE_MAX:,} bytes", None])


def _owned(
    engine: Engine,
    session: LiveSession,
    message: Started | Done | Tried | Ask | Suspend | Finish | Park,
) -> LiveRun | None:
    """The run, if the message may change it; epochs alone decide."""
    run = session.runs.get(message.run)
    if run is None or run.row.epoch != message.epoch:
        if session.link is not None:
            session.link.send(Evict(message.run, message.epoch))
        return None
    run.silent = False
    return None if run.closing or not run.loaded or not engine.ready else run


def _beat(engine: Engine, session: LiveSession, message: Beat) -> None:
    engine.sessions.renew(session)
    if session.link is not None:
        session.link.send(Accepted(message.number, engine.numbers.now_ms()))
    engine.spawn(engine.sessions.beat(session, message.have))


def _bye(engine: Engine, session: LiveSession, message: Bye) -> None:
    del message
    engine.spawn(engine.sessions.end(session, SessionEvent.GOODBYE))


def _started(engine: Engine, session: LiveSession, message: Started) -> None:
    run = _owned(engine, session, message)
    if run is not None and message.call not in run.calls:
        run.bodies.add(message.call)


def _done(engine: Engine, session: LiveSession, message: Done) -> None:
    run = _owned(engine, session, message)
    if run is None:
        return
    call = message.call
    run.bodies.discard(call)
    if call in run.calls:
        return
    book = engine.book
    draft = Draft()
    refused = message.refused or len(message.value) > VALUE_MAX
    book.entry(
        draft,
        run,
        "refused" if refused else "done",
        call,
        ok=message.ok,
        value=message.value if len(message.value) <= VALUE_MAX else NIL,
        attempt=message.attempt,
        echo=True,
    )
    run.calls[call] = run.seq
    run.again.pop(call, None)
    if run.unsettled and (message.ok or refused):
        run.unsettled.discard(call)
    row = run.row
    if refused:
        book.park(draft, run, f"{call} happened and its result cannot be stored: supply one")
    elif row.deaths:
        row.deaths = row.deaths_alone = 0
        if session.alone == row.id:
            session.alone = ""
            draft.then.append(engine.queue.pump)
        book.write(draft, run)
    else:
        book.expect(draft, run)
    book.commit(draft)


def _tried(engine: Engine, session: LiveSession, message: Tried) -> None:
    run = _owned(engine, session, message)
    if run is None:
        return
    run.bodies.discard(message.call)
    if message.call in run.calls or run.tries.get(message.call, 0) >= message.attempt:
        return
    run.tries[message.call] = message.attempt
    run.again[message.call] = message.again_ms
    draft = Draft()
    error = message.error if len(message.error) <= VALUE_MAX else TOO_LARGE
    value = _pack([message.again_ms, error])
    engine.book.entry(
        draft, run, "tried", message.call, ok=False, value=value, attempt=message.attempt
    )
    engine.book.expect(draft, run)
    engine.book.commit(draft)


def _ask(engine: Engine, session: LiveSession, message: Ask) -> None:
    run = _owned(engine, session, message)
    if run is None:
        return
    try:
        more = engine.waits.ask(run, message)
    except ValueError as error:
        draft = Draft()
        engine.book.park(draft, run, f"{message.call} asks for what nobody can give: {error}")
        engine.book.commit(draft)
        return
    if more is not None:
        engine.spawn(more)


def _suspend(engine: Engine, session: LiveSession, message: Suspend) -> None:
    run = _owned(engine, session, message)
    if run is None or message.seq != run.seq or run.asking:
        return
    draft = Draft()
    if run.again:
        engine.book.sleep_till_retry(draft, run)
    if run.waits or run.again:
        engine.book.leave(draft, run, RunEvent.SUSPEND)
    else:
        engine.book.park(draft, run, "it waits for nothing that could ever happen")
    draft.then.append(engine.queue.pump)
    engine.book.commit(draft)


def _finish(engine: Engine, session: LiveSession, message: Finish) -> None:
    run = _owned(engine, session, message)
    if run is None or message.seq != run.seq or run.asking:
        return
    event = OUTCOMES.get(message.outcome)
    if run.row.state is Run.CANCELLING and event is RunEvent.COMPLETE:
        event = RunEvent.END_CANCELLED
    cause = ""
    if event is None or not RUN.allows(run.row.state, event):
        cause = f"it ended as {message.outcome!r}, which a {run.row.state} run cannot"
    elif len(message.value) > VALUE_MAX:
        cause = f"its result has {len(message.value):,} bytes, the most is {VALUE_MAX:,}"
    if cause or event is None:
        draft = Draft()
        engine.book.park(draft, run, cause)
        engine.book.commit(draft)
    elif not run.row.parent and "approve" not in run.waits.values():
        draft = Draft()
        run.row.value = message.value
        engine.book.drop_waits(draft, run)
        engine.book.leave(draft, run, event)
        engine.book.commit(draft)
    else:
        engine.spawn(_end(engine, run, event, message))


async def _end(engine: Engine, run: LiveRun, event: RunEvent, message: Finish) -> None:
    async with engine.records.deciding:
        await engine.waits.end(run, event, message.value, seq=message.seq)


def _park(engine: Engine, session: LiveSession, message: Park) -> None:
    run = _owned(engine, session, message)
    if run is not None:
        draft = Draft()
        engine.book.park(draft, run, message.cause[:CAUSE_MAX])
        draft.then.append(engine.queue.pump)
        engine.book.commit(draft)


HANDLERS: Final[dict[type, Callable[[Engine, LiveSession, Any], None]]] = {
    Beat: _beat,
    Bye: _bye,
    Started: _started,
    Done: _done,
    Tried: _tried,
    Ask: _ask,
    Suspend: _suspend,
    Finish: _finish,
    Park: _park,
}
