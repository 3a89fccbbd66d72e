"""Sessions: who is there, how long its lease holds, and what follows when it ends.

No lease compares instants of two clocks: a session ends when its warden or supervisor confirms the
death, when it says goodbye, or when its beat has stayed the same for ttl on our own clock.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from outlive.core.rows import AppRow, SessionRow
from outlive.core.tables import RUN, RunEvent, Session, SessionEvent
from outlive.server.book import Book, Refusal
from outlive.server.live import LiveRun, LiveSession
from outlive.server.names import checked
from outlive.server.ports import Clock, Link
from outlive.server.queue import Queue
from outlive.server.records import Draft
from outlive.store.api import Key
from outlive.wire.native_v1 import Entry, Evict, Have, Hello, Welcome

__all__ = ["Leases", "Sessions"]

log = logging.getLogger("outlive.engine")

ROOM_MAX: Final = 1_000_000
VERSIONS_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class Leases:
    """How patient the engine is; seconds, and counts."""

    ttl_s: float = 6.0
    """A session whose beat stays the same for so long has ended."""
    grace_s: float = 3.0
    """A session without a connection for so long may not come back."""
    deaths_max: int = 3
    """A run is parked after so many deaths with nothing else running beside it."""


class Sessions:
    """All sessions that have not ended."""

    def __init__(
        self, book: Book, queue: Queue, apps: dict[str, AppRow], clock: Clock, leases: Leases
    ) -> None:
        self._book = book
        self._queue = queue
        self._apps = apps
        self._clock = clock
        self._leases = leases
        self._looked_s = clock.steady_s()
        self.token: Callable[[], str] = lambda: secrets.token_urlsafe(24)
        self.all: dict[str, LiveSession] = {}
        self.ending = 0
        """Sessions whose end was decided and is not durable with all that hangs on it."""
        queue.sessions = lambda: list(self.all.values())

    def restore(self, row: SessionRow, version: int) -> LiveSession:
        """A session of before a restart: it has its whole ttl to come back, on this clock."""
        session = LiveSession(
            id=row.id,
            app=row.app,
            runner=row.runner,
            token=row.token,
            ttl_s=row.ttl_ms / 1000,
            workflows=row.workflows,
            room=row.room,
            versions=row.versions,
            now_s=self._clock.steady_s(),
        )
        session.happen(SessionEvent.DISCONNECT)
        session.until_s = session.renewed_s + max(session.ttl_s, self._leases.grace_s)
        session.version = version
        self.all[row.id] = session
        return session

    # --- coming and going ---

    async def hello(self, link: Link, hello: Hello) -> LiveSession:
        """The session of a runner: the one it names, if that may go on, else a new one."""
        check_names(hello)
        session = self._returning(hello)
        if session is not None:
            async with self._book.records.deciding:
                for run in list(session.runs.values()):
                    await self._book.fill(run)
        if session is None or session.id not in self.all:
            return await self._new(link, hello)
        if session.link is not None:
            session.link.close()  # the runner knows of a break that nobody told us of
        else:
            session.happen(SessionEvent.RETURN)
        session.link = link
        session.until_s = None
        session.workflows, session.room = hello.workflows, hello.room
        session.versions = hello.versions
        self.renew(session)
        link.send(self._welcome(session, hello.token))
        await self._catch_up(session, hello.have)
        self._queue.pump()
        return session

    def _returning(self, hello: Hello) -> LiveSession | None:
        session = self.all.get(hello.session)
        if session is None or not hmac.compare_digest(session.token, hashed(hello.token)):
            return None
        over = self._may_not_return(session) or session.app != hello.app
        return None if over else session

    def _may_not_return(self, session: LiveSession) -> bool:
        return session.until_s is not None and self._clock.steady_s() > session.until_s

    async def _new(self, link: Link, hello: Hello) -> LiveSession:
        token = self.token()
        session = LiveSession(
            id=self.token(),
            app=hello.app,
            runner=hello.runner,
            token=hashed(token),
            ttl_s=self._leases.ttl_s,
            workflows=hello.workflows,
            room=hello.room,
            versions=hello.versions,
            now_s=self._clock.steady_s(),
        )
        row = SessionRow(
            id=session.id,
            app=hello.app,
            runner=hello.runner,
            token=session.token,
            ttl_ms=round(session.ttl_s * 1000),
            workflows=hello.workflows,
            room=hello.room,
            versions=hello.versions,
        )
        async with self._book.records.deciding:
            draft = Draft()
            draft.put("session", session.id, 0, row)
            await self._learn(draft, hello)
            self._book.commit(draft)
        await self._book.records.durable()
        session.link = link
        self.renew(session)
        self.all[session.id] = session
        link.send(self._welcome(session, token))
        self._queue.pump()
        return session

    async def _learn(self, draft: Draft, hello: Hello) -> None:
        known = self._apps.get(hello.app, AppRow())
        workflows = known.workflows | hello.workflows
        if workflows != known.workflows or hello.app not in self._apps:
            (record,) = await self._book.records.load(Key("app", hello.app))
            row = AppRow(workflows=workflows)
            draft.put("app", hello.app, record.version if record else 0, row)
            self._apps[hello.app] = row

    def _welcome(self, session: LiveSession, token: str) -> Welcome:
        return Welcome(session.id, token, round(session.ttl_s * 1000), self._book.numbers.now_ms())

    def lost(self, session: LiveSession, link: Link) -> None:
        """A connection broke: suspicion, not death."""
        if session.link is link and session.state is Session.LIVE:
            session.link = None
            session.until_s = self._clock.steady_s() + self._leases.grace_s
            session.happen(SessionEvent.DISCONNECT)
            for run in session.runs.values():
                run.had = (-1, -1)

    # --- leases ---

    def renew(self, session: LiveSession) -> None:
        """Its lease holds for a ttl from now."""
        session.beat += 1
        session.renewed_s = self._clock.steady_s()

    def renew_by_warden(self, session_id: str, token: str) -> float:
        """Renew for a warden; the ttl in seconds. Raises Refusal if the session has ended."""
        session = self._named(session_id, token)
        if self._may_not_return(session):
            raise Refusal(f"session {session_id} may not come back: its connection is lost", 410)
        self.renew(session)
        return session.ttl_s

    def _named(self, session_id: str, token: str) -> LiveSession:
        session = self.all.get(session_id)
        if session is None:
            raise Refusal(f"there is no session {session_id}, or it has ended", 410)
        if not hmac.compare_digest(session.token, hashed(token)):
            raise Refusal(f"that is not the token of session {session_id}", 403)
        return session

    async def dead(self, session_id: str, token: str) -> None:
        """A warden or supervisor saw the process end; raises Refusal."""
        await self.end(self._named(session_id, token), SessionEvent.CONFIRM_DEATH)

    async def beat(self, session: LiveSession, have: list[Have]) -> None:
        """Send again what was missed, and give out again what never arrived."""
        session.heard += 1
        if session.catching_up:
            return  # it is slow to read; the next beat will do
        session.catching_up = True
        try:
            await self._after_beat(session, have)
        finally:
            session.catching_up = False

    async def _after_beat(self, session: LiveSession, have: list[Have]) -> None:
        for had in have:
            run = session.runs.get(had.run)
            if run is None or run.row.epoch != had.epoch or run.closing:
                continue
            if had.seq > run.durable:
                self._take_back(run)
                continue
            if run.had[0] == had.seq and had.seq < run.had[1]:
                await self._resend(session, run, had.seq)
            run.had = (had.seq, run.durable)
        there = {had.run for had in have}
        missed = [
            one
            for one in session.runs.values()
            if one.row.id not in there
            and one.dispatched
            and not one.closing
            and session.heard - one.given_at > 2
        ]
        for one in missed:
            one.dispatched = False
            await self._queue.dispatch(one)
        if session.link is not None:
            for had in have:
                now = session.runs.get(had.run)
                if now is None or now.row.epoch != had.epoch:
                    session.link.send(Evict(had.run, had.epoch))

    async def _catch_up(self, session: LiveSession, have: list[Have]) -> None:
        """After a break: send what the runner missed, and what it never got."""
        there = {had.run: had for had in have}
        for run in list(session.runs.values()):
            had = there.get(run.row.id)
            if run.closing or not run.claimed:
                continue
            if had is None or had.epoch != run.row.epoch:
                await self._queue.dispatch(run)
            elif had.seq > run.durable:
                self._take_back(run)
            else:
                await self._resend(session, run, had.seq)
        for had in have:
            now = session.runs.get(had.run)
            if (now is None or now.row.epoch != had.epoch) and session.link is not None:
                session.link.send(Evict(had.run, had.epoch))

    def _take_back(self, run: LiveRun) -> None:
        """The runner has more of the record than is stored: it goes on from what was lost."""
        log.warning("run %s was given more entries than are stored", run.row.id)
        self.release(run, died=False, alone=False, evict=True)

    async def _resend(self, session: LiveSession, run: LiveRun, after: int) -> None:
        run.dispatched = False  # what becomes durable meanwhile must not overtake
        if session.link is not None:
            await session.link.room()
        bodies = await self._book.records.entries(run.row.no, after)
        while not run.closing and run.durable > after + len(bodies):
            bodies = await self._book.records.entries(run.row.no, after)
        if run.closing or session.link is None:
            return
        run.dispatched = True
        row = run.row
        for seq, e in enumerate(self._book.decoded(bodies), after + 1):
            session.link.send(
                Entry(row.id, row.epoch, seq, e.kind, e.call, e.at_ms, e.ok, e.value, e.attempt)
            )

    async def look(self) -> None:
        """End the sessions whose lease has lapsed."""
        now = self._clock.steady_s()
        late = now - self._looked_s
        self._looked_s = now
        for session in list(self.all.values()):
            if late > session.ttl_s / 3:
                # We were not looking ourselves: their beats may lie unread.
                session.renewed_s = max(session.renewed_s, now - session.ttl_s / 2)
            if now - session.renewed_s > session.ttl_s:
                await self.end(session, SessionEvent.LAPSE, beat=session.beat)

    # --- ends ---

    async def end(
        self, session: LiveSession, event: SessionEvent, *, beat: int | None = None
    ) -> None:
        """The session is over: its runs go to others, charged if it died.

        With `beat`, only if that is still its last one when it comes to it.
        """
        async with self._book.records.deciding:
            if session.id not in self.all:
                return
            for run in list(session.runs.values()):
                await self._book.fill(run)
            if session.id not in self.all or beat not in {None, session.beat}:
                return
            session.happen(event)
            self.all.pop(session.id, None)
            link, session.link = session.link, None
            if link is not None:
                link.close()
            draft = Draft()
            draft.drop("session", session.id, session.version)
            self._book.commit(draft)
            runs = [run for run in session.runs.values() if not run.closing]
            # Code outside of steps can end a process too: then its run had nothing said of it yet.
            charged = [run for run in runs if run.bodies or run.silent]
            if event is GOODBYE:
                charged = []
            for run in runs:
                self.release(run, died=run in charged, alone=len(charged) == 1)
            self.ending += 1
            last = Draft()
            last.then.append(self._ended)
            self._book.commit(last)

    def _ended(self) -> None:
        self.ending -= 1

    def release(self, run: LiveRun, *, died: bool, alone: bool, evict: bool = False) -> None:
        """Take a run from its session."""
        row = run.row
        draft = Draft()
        if died:
            row.deaths += 1
            row.deaths_alone += alone
        if row.deaths_alone >= self._leases.deaths_max and RUN.allows(row.state, RunEvent.PARK):
            calls = ", ".join(sorted(run.bodies)) or "its code or as a body began"
            self._book.park(
                draft,
                run,
                f"its process died {row.deaths_alone} times with nothing else running, "
                f"last in {calls}",
            )
        else:
            self._book.leave(draft, run, RunEvent.RELEASE, evict=evict)
        self._book.commit(draft)


GOODBYE: Final = SessionEvent.GOODBYE


def check_names(hello: Hello) -> None:
    """Raises Refusal for names that cannot be kept."""
    checked("app", hello.app)
    checked("runner", hello.runner)
    for workflow, triggers in hello.workflows.items():
        checked("workflow", workflow)
        for event in triggers:
            checked("event", event)
    if len(hello.versions) > VERSIONS_MAX:
        raise Refusal(f"{len(hello.versions)} versions; the most is {VERSIONS_MAX}", 400)
    for what, version in hello.versions.items():
        checked("version of", what)
        checked(f"version of {what}", version)
    if not 1 <= hello.room <= ROOM_MAX:
        raise Refusal(f"room {hello.room} is out of range: 1 to {ROOM_MAX:,} runs at once", 400)


def hashed(token: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(token.encode()).hexdigest()
