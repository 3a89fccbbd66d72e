"""What the engine keeps in memory: sessions, and the runs that a session has."""

from __future__ import annotations

from outlive.core.rows import RunRow
from outlive.core.tables import SESSION, Session, SessionEvent
from outlive.server.ports import Link

__all__ = ["LiveRun", "LiveSession"]


class LiveSession:
    """A session that has not ended."""

    __slots__ = (
        "alone",
        "app",
        "beat",
        "catching_up",
        "heard",
        "id",
        "link",
        "renewed_s",
        "room",
        "runner",
        "runs",
        "state",
        "token",
        "ttl_s",
        "until_s",
        "version",
        "versions",
        "workflows",
    )

    def __init__(
        self,
        *,
        id: str,  # noqa: A002  the word for it
        app: str,
        runner: str,
        token: str,
        ttl_s: float,
        workflows: dict[str, list[str]],
        room: int,
        versions: dict[str, str],
        now_s: float,
    ) -> None:
        self.id = id
        self.app = app
        self.runner = runner
        self.token = token
        self.ttl_s = ttl_s
        self.workflows = workflows
        self.room = room
        self.versions = versions
        self.state = Session.LIVE
        self.link: Link | None = None
        self.runs: dict[str, LiveRun] = {}
        self.beat = 0
        """Grows with each renewal, whoever sent it."""
        self.heard = 0
        """Beats of the runner itself."""
        self.catching_up = False
        """Whether what a beat asked for is still being sent."""
        self.renewed_s = now_s
        self.until_s: float | None = None
        """Until when it may come back; None: its connection is there."""
        self.alone = ""
        """The suspect run that nothing else may run beside."""
        self.version = 1

    def happen(self, event: SessionEvent) -> None:
        """Move to the state that follows; raises Illegal."""
        self.state = SESSION.after(self.state, event)

    @property
    def open(self) -> bool:
        """Whether it takes one more run."""
        return self.link is not None and not self.alone and len(self.runs) < self.room


class LiveRun:
    """A run as it was decided; `durable` says how much is stored. No session: nobody has it."""

    __slots__ = (
        "again",
        "asking",
        "bodies",
        "calls",
        "claimed",
        "closing",
        "dispatched",
        "durable",
        "given_at",
        "had",
        "loaded",
        "marks",
        "row",
        "seq",
        "session",
        "silent",
        "tries",
        "unsettled",
        "version",
        "waits",
    )

    def __init__(self, row: RunRow, version: int, session: LiveSession | None) -> None:
        self.row = row
        self.version = version
        self.session = session
        self.seq = row.seq
        self.durable = row.seq
        self.calls: dict[str, int] = {}
        """Call -> the entry that met it."""
        self.tries: dict[str, int] = {}
        """Call -> the last attempt that was recorded as failed."""
        self.again: dict[str, int] = {}
        """Call -> when it is tried again."""
        self.waits: dict[str, str] = {}
        """Call -> kind, of waits that are open."""
        self.asking: set[str] = set()
        """Calls whose wait is about to be opened."""
        self.bodies: set[str] = set()
        """Calls whose body is running, as far as the runner said."""
        self.marks: set[str] = set()
        """Marks of effects that are recorded."""
        self.unsettled: set[str] = set()
        """Calls with a mark of which nobody knows yet that it happened."""
        self.loaded = True
        """Whether seq, calls, tries and waits are those of the record."""
        self.claimed = False
        """Whether that the session has it is durable."""
        self.dispatched = False
        self.silent = False
        """Whether it was given out and the runner has said nothing about it yet."""
        self.closing = False
        """Its leaving this session was decided: nothing it says counts any more."""
        self.given_at = 0
        """What `heard` of the session was when it was dispatched."""
        self.had = (-1, -1)
        """At the beat before: what the runner had, and what was durable."""

    def mark(self, call: str) -> None:
        """An effect is about to go out; `call` may name a trial behind `!`."""
        self.marks.add(call)
        self.unsettled.add(call.partition("!")[0])
