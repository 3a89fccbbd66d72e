"""Events: sent once for an id, kept, and met with the waits of runs that ask for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from outlive.core.keys import effect_key
from outlive.core.rows import AppRow, EventRow, RunRow, WaitRow
from outlive.server.book import FINAL, Book, wait_key
from outlive.server.live import LiveRun
from outlive.server.records import Draft, row_of
from outlive.store.api import Key
from outlive.wire import asks
from outlive.wire.native_v1 import Ask

__all__ = ["Events", "Sent", "topic_of"]

PAGE: Final = 500
_pack = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True)
class Sent:
    """An event that was sent: its id, whether it was new, and the runs that it started."""

    id: str
    new: bool
    started: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Coming:
    """What has to be known before an event is sent."""

    app: str
    name: str
    id: str
    data: bytes
    new: bool
    version: int
    waiting: list[tuple[WaitRow, int]]
    runs: dict[str, LiveRun]


class Events:
    """Hold `deciding` for all but `send`."""

    def __init__(self, book: Book, apps: dict[str, AppRow]) -> None:
        self._book = book
        self._records = book.records
        self._numbers = book.numbers
        self._apps = apps

    async def ask(self, run: LiveRun, message: Ask, what: asks.Event) -> None:
        """A run waits for an event, which may have come already."""
        topic = topic_of(run.row.app, what.name)
        await self._settled(topic)
        found = await self._early(run.row, topic, what)
        version = await self._version(topic)
        if run.closing:
            return
        draft = Draft()
        if found is not None:
            self._met_by(draft, run, message.call, met_value(found))
        else:
            draft.put("topic", topic, version, AppRow())
            self._book.open_wait(
                draft,
                run,
                message.call,
                message.kind,
                message.about,
                due_ms=self._numbers.due_ms(what.for_ms),
                tag=f"event:{topic}",
            )
        self._book.commit(draft)

    async def _early(self, row: RunRow, topic: str, what: asks.Event) -> EventRow | None:
        """The first that came after the run's start, is as asked, and was not taken by it.

        Takes note of how far all were taken, so as not to look at those again.
        """
        name = what.name
        after = row.past.get(name)
        if after is None:
            # Events are recorded in the order of their numbers, and so is the start of a run.
            (record,) = await self._records.store.load([Key("run", row.id)])
            after = 0 if record is None else record.number
        taken = set(row.taken.get(name, ()))
        low = max(row.event_no, row.seen.get(name, 0))
        found = None
        all_taken = True
        at = after
        while found is None and (page := await self._records.page("event", topic, at, PAGE)):
            at = page[-1].number
            for record in page:
                event: EventRow = row_of(record, EventRow)
                known = event.number <= low or event.number in taken
                if not known and matches(event.data, what.match):
                    found = event
                elif not known:
                    all_taken = False
                if all_taken:
                    low, after = max(low, event.number), record.number
                if found is not None:
                    break
        if found is not None and found.number > low:
            taken.add(found.number)
        row.seen[name], row.past[name] = low, after
        row.taken[name] = sorted(number for number in taken if number > low)
        return found

    def _met_by(self, draft: Draft, run: LiveRun, call: str, value: bytes) -> None:
        run.waits.pop(call, None)
        self._book.entry(draft, run, "met", call, value=value)
        run.calls[call] = run.seq
        if run.row.asleep:
            self._book.moved(draft, run)
        else:
            self._book.write(draft, run)

    async def emit(self, run: LiveRun, call: str, what: asks.Emit) -> None:
        """A run sends an event."""
        coming = await self._read(run.row.app, what.name, what.id, what.data, sender=run)
        if run.closing:
            return
        draft = Draft()
        self._book.entry(draft, run, "emitted", call)
        run.calls[call] = run.seq
        self._book.expect(draft, run)
        self._send(draft, coming)
        self._book.commit(draft)

    async def send(self, app: str, name: str, event_id: str, data: bytes) -> Sent:
        """Store an event, once for its id; wake and start what it concerns; durable on return."""
        async with self._records.deciding:
            coming = await self._read(app, name, event_id, data)
            draft = Draft()
            sent = self._send(draft, coming)
            if sent.new:
                self._book.commit(draft)
        await self._records.durable()
        return sent

    async def _read(
        self, app: str, name: str, event_id: str, data: bytes, sender: LiveRun | None = None
    ) -> _Coming:
        topic = topic_of(app, name)
        await self._settled(topic)
        (there,) = await self._records.load(Key("event", topic_of(topic, event_id)))
        waiting = [] if there else await self._waiting(topic, data)
        version = await self._version(topic)
        ids = list(dict.fromkeys(wait.run for wait, _ in waiting))
        runs = {run.row.id: run for run in await self._book.runs(ids) if run is not None}
        if sender is not None:
            runs[sender.row.id] = sender
        return _Coming(app, name, event_id, data, there is None, version, waiting, runs)

    def _send(self, draft: Draft, coming: _Coming) -> Sent:
        if not coming.new:
            return Sent(coming.id, new=False)
        topic = topic_of(coming.app, coming.name)
        key = topic_of(topic, coming.id)
        event = EventRow(
            app=coming.app,
            name=coming.name,
            id=coming.id,
            data=coming.data,
            at_ms=self._numbers.now_ms(),
            number=self._numbers.next_event(),
        )
        draft.put("event", key, 0, event, tag=topic)
        # Event and wait both change the topic's version, so that neither can miss the other.
        draft.put("topic", topic, coming.version, AppRow())
        started = []
        for workflow, triggers in self._workflows(coming.app):
            if coming.name in triggers:
                run_id = f"{workflow}-{effect_key(workflow, key)}"
                self._book.start(
                    draft, run_id=run_id, app=coming.app, workflow=workflow, value=coming.data
                )
                started.append(run_id)
        value = met_value(event) if coming.waiting else b""
        met: set[str] = set()
        for wait, version in coming.waiting:
            run = coming.runs.get(wait.run)
            # What has left since it was read took its waits along; nor is one taken twice by a run.
            if run is None or wait.run in met or wait.call in run.calls or run.row.state in FINAL:
                continue
            met.add(wait.run)
            draft.drop("wait", wait_key(wait.run, wait.call), version)
            run.row.taken.setdefault(event.name, []).append(event.number)
            self._met_by(draft, run, wait.call, value)
        return Sent(coming.id, new=True, started=tuple(started))

    def _workflows(self, app: str) -> list[tuple[str, list[str]]]:
        row = self._apps.get(app)
        return [] if row is None else list(row.workflows.items())

    async def _waiting(self, topic: str, data: bytes) -> list[tuple[WaitRow, int]]:
        """The open waits that an event with such data meets, the oldest first."""
        after = 0
        found = []
        while page := await self._records.page("wait", f"event:{topic}", after, PAGE):
            after = page[-1].number
            for record in page:
                wait: WaitRow = row_of(record, WaitRow)
                what = asks.read("event", wait.about)
                if isinstance(what, asks.Event) and matches(data, what.match):
                    found.append((wait, record.version))
        return found

    async def _settled(self, topic: str) -> None:
        """Pages show what is durable: wait until all about this topic is."""
        while self._records.coming("topic", topic):
            await self._records.durable()

    async def _version(self, topic: str) -> int:
        (record,) = await self._records.load(Key("topic", topic))
        return record.version if record else 0


def topic_of(app: str, name: str) -> str:
    """A name for both that no other two have."""
    return f"{len(app)}:{app}{name}"


def met_value(event: EventRow) -> bytes:
    """What a run is given of an event."""
    return _pack({"name": event.name, "id": event.id, "data": msgspec.Raw(event.data)})


def matches(data: bytes, match: dict[str, bytes]) -> bool:
    """Whether the members of an event's data at the dotted paths are the values given."""
    if not match:
        return True
    try:
        whole = msgspec.msgpack.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return all(_at(whole, path.split(".")) == value for path, value in match.items())


def _at(whole: Any, path: list[str]) -> bytes | None:
    for name in path:
        if not isinstance(whole, dict) or name not in whole:
            return None
        whole = whole[name]
    return _pack(whole)
