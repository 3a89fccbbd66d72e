"""The HTTP API, one function a path. Bodies and answers are JSON; instants are in milliseconds."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec

from outlive.core.rows import ApprovalRow
from outlive.core.tables import Approval
from outlive.server.engine import Engine, Refusal
from outlive.server.names import checked
from outlive.server.ports import TestClock
from outlive.server.records import row_of
from outlive.server.views import (
    approval_view,
    approvals_view,
    run_view,
    runs_view,
    short_view,
    steps_view,
)
from outlive.store.api import Key
from outlive.wire.values import from_json

__all__ = ["ROUTES", "Handler", "Request"]

T = TypeVar("T")
Answer = tuple[int, Any]

WAIT_MAX_S: Final = 60.0
LIMIT_MAX: Final = 1000
STEPS_MAX: Final = 10_000
JUMP_MAX_MS: Final = 100 * 366 * 86_400_000
"""A century: how far one jump of a test clock may go."""


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked: the variable parts of the path, the query, the body."""

    parts: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes

    def read(self, kind: type[T]) -> T:
        """The body; raises Refusal."""
        try:
            return msgspec.json.decode(self.body or b"{}", type=kind)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            raise Refusal(f"the body is not what is expected here: {error}", 400) from None

    def number(self, name: str, default: float, most: float) -> float:
        """A number in the query; raises Refusal."""
        text = self.query.get(name, "")
        try:
            value = float(text) if text else default
        except ValueError:
            value = -1
        if not 0 <= value <= most:
            raise Refusal(f"{name}={text} is out of range: 0 to {most:g}", 400)
        return value


class StartBody(msgspec.Struct, forbid_unknown_fields=True):
    """Start a run. Without an id it is a new one each time."""

    app: str
    workflow: str
    id: str = ""
    input: msgspec.Raw = msgspec.Raw(b"null")


class EventBody(msgspec.Struct, forbid_unknown_fields=True):
    """Send an event. With an id it is sent once."""

    app: str
    name: str
    id: str = ""
    data: msgspec.Raw = msgspec.Raw(b"null")


class DecisionBody(msgspec.Struct, forbid_unknown_fields=True):
    """Decide a question; `digest`, if given, must be that of what was shown."""

    decision: str
    by: str = ""
    comment: str = ""
    digest: str | None = None


class ValueBody(msgspec.Struct, forbid_unknown_fields=True):
    """A value."""

    value: msgspec.Raw


class TokenBody(msgspec.Struct, forbid_unknown_fields=True):
    """Who may speak for a session."""

    token: str


class ClockBody(msgspec.Struct, forbid_unknown_fields=True):
    """How far a test clock is to jump."""

    advance_ms: int


async def start_run(engine: Engine, request: Request) -> Answer:
    """POST /v1/runs."""
    body = request.read(StartBody)
    value = from_json(bytes(body.input), "input")
    app, workflow = checked("app", body.app), checked("workflow", body.workflow)
    if not body.id:
        row = await engine.start_new(app, workflow, new_id(), value)
        return 201, short_view(row)
    row, new = await engine.start(app, workflow, checked("id", body.id), value)
    return (201 if new else 200), short_view(row)


async def list_runs(engine: Engine, request: Request) -> Answer:
    """GET /v1/runs."""
    return 200, await runs_view(
        engine,
        app=request.query.get("app"),
        state=request.query.get("state"),
        after=int(request.number("after", 0, 1 << 62)),
        limit=int(request.number("limit", 100, LIMIT_MAX)),
    )


async def show_run(engine: Engine, request: Request) -> Answer:
    """GET /v1/runs/{run}; with `wait`, only when it has ended or so many seconds are over."""
    wait_s = request.number("wait", 0, WAIT_MAX_S)
    run_id = request.parts["run"]
    row = await (engine.wait(run_id, wait_s) if wait_s else engine.run(run_id))
    return 200, await run_view(engine, row)


async def show_steps(engine: Engine, request: Request) -> Answer:
    """GET /v1/runs/{run}/steps: those after entry `after`, at most `limit`."""
    after = int(request.number("after", 0, 1 << 62))
    limit = int(request.number("limit", STEPS_MAX, STEPS_MAX))
    row = await engine.run(request.parts["run"])
    return 200, {"steps": await steps_view(engine, row, after=after, limit=limit)}


async def cancel_run(engine: Engine, request: Request) -> Answer:
    """POST /v1/runs/{run}/cancel."""
    return 200, short_view(await engine.cancel(request.parts["run"]))


async def resume_run(engine: Engine, request: Request) -> Answer:
    """POST /v1/runs/{run}/resume."""
    return 200, short_view(await engine.resume(request.parts["run"]))


async def supply_step(engine: Engine, request: Request) -> Answer:
    """POST /v1/runs/{run}/steps/{call}: the result of a step whose own was refused."""
    value = from_json(bytes(request.read(ValueBody).value))
    return 200, short_view(await engine.supply(request.parts["run"], request.parts["call"], value))


async def send_event(engine: Engine, request: Request) -> Answer:
    """POST /v1/events."""
    body = request.read(EventBody)
    event_id = checked("id", body.id) if body.id else new_id()
    data = from_json(bytes(body.data), "data")
    sent = await engine.send(checked("app", body.app), checked("name", body.name), event_id, data)
    return (201 if sent.new else 200), {"id": sent.id, "new": sent.new, "started": sent.started}


async def list_apps(engine: Engine, request: Request) -> Answer:
    """GET /v1/apps: what runners said of their apps, and the runners that are there."""
    del request
    apps: dict[str, Any] = {
        name: {"workflows": row.workflows, "runners": []} for name, row in engine.apps.items()
    }
    for session in engine.sessions.all.values():
        apps[session.app]["runners"].append(
            {
                "name": session.runner,
                "session": session.id,
                "connected": session.link is not None,
                "running": len(session.runs),
                "room": session.room,
                "versions": session.versions,
            }
        )
    return 200, {"apps": apps}


async def list_approvals(engine: Engine, request: Request) -> Answer:
    """GET /v1/approvals; `state` is pending if not given, or all."""
    state = request.query.get("state", Approval.PENDING.value)
    if state not in {*Approval, "all"}:
        raise Refusal(f"there is no state {state!r}; there are all, {', '.join(Approval)}", 400)
    limit = int(request.number("limit", 100, LIMIT_MAX))
    return 200, await approvals_view(engine, None if state == "all" else state, limit)


async def show_approval(engine: Engine, request: Request) -> Answer:
    """GET /v1/approvals/{approval}."""
    (record,) = await engine.store.load([Key("approval", request.parts["approval"])])
    if record is None:
        raise Refusal(f"there is no approval {request.parts['approval']}", 404)
    return 200, approval_view(row_of(record, ApprovalRow))


def _approved(body: DecisionBody) -> bool:
    if body.decision not in {"approve", "deny"}:
        raise Refusal(f"decision {body.decision!r} is neither approve nor deny", 400)
    return body.decision == "approve"


async def decide_approval(engine: Engine, request: Request) -> Answer:
    """POST /v1/approvals/{approval}."""
    body = request.read(DecisionBody)
    row = await engine.decide(
        request.parts["approval"],
        approved=_approved(body),
        by=body.by,
        comment=body.comment,
        digest=body.digest,
    )
    return 200, approval_view(row)


async def decide_early(engine: Engine, request: Request) -> Answer:
    """POST /v1/runs/{run}/approvals/{call}: before it is asked."""
    body = request.read(DecisionBody)
    if body.digest is None:
        raise Refusal("digest is missing: say what is decided before it is asked", 400)
    await engine.decide_early(
        request.parts["run"],
        request.parts["call"],
        digest=body.digest,
        approved=_approved(body),
        by=body.by,
        comment=body.comment,
    )
    return 202, {"kept": True}


async def renew(engine: Engine, request: Request) -> Answer:
    """POST /v1/sessions/{session}/beat: a warden's."""
    token = request.read(TokenBody).token
    return 200, {"ttl_s": engine.renew(request.parts["session"], token)}


async def dead(engine: Engine, request: Request) -> Answer:
    """POST /v1/sessions/{session}/dead: the process was seen to end."""
    await engine.dead(request.parts["session"], request.read(TokenBody).token)
    return 200, {"ended": True}


async def health(engine: Engine, request: Request) -> Answer:
    """GET /v1/health: the process answers."""
    del engine, request
    return 200, {"alive": True}


async def ready(engine: Engine, request: Request) -> Answer:
    """GET /v1/ready: it decides things."""
    del request
    if not engine.ready:
        raise Refusal(f"not ready: {engine.fault or 'starting'}", 503)
    return 200, {
        "ready": True,
        "sessions": len(engine.sessions.all),
        "running": len(engine.book.live),
        "queued": len(engine.queue),
        "now_ms": engine.numbers.now_ms(),
    }


async def jump(engine: Engine, request: Request) -> Answer:
    """POST /v1/test/clock: only of an engine that was started with a test clock."""
    if not isinstance(engine.clock, TestClock):
        raise Refusal("this engine has the machine's clock; start one with --test-clock", 404)
    by_ms = request.read(ClockBody).advance_ms
    if not 0 <= by_ms <= JUMP_MAX_MS:
        raise Refusal(f"advance_ms={by_ms} is out of range: 0 to {JUMP_MAX_MS}", 400)
    engine.clock.advance(by_ms)
    engine.look_at_clock()
    return 200, {"now_ms": engine.numbers.now_ms()}


def new_id() -> str:
    """An id that nobody has used."""
    return secrets.token_hex(16)


Handler = Callable[[Engine, Request], Awaitable[Answer]]
ROUTES: Final[dict[tuple[str, tuple[str, ...]], Handler]] = {
    (method, tuple(path.split("/")[1:])): handler
    for method, path, handler in (
        ("POST", "/v1/runs", start_run),
        ("GET", "/v1/runs", list_runs),
        ("GET", "/v1/runs/{run}", show_run),
        ("GET", "/v1/runs/{run}/steps", show_steps),
        ("POST", "/v1/runs/{run}/cancel", cancel_run),
        ("POST", "/v1/runs/{run}/resume", resume_run),
        ("POST", "/v1/runs/{run}/steps/{call}", supply_step),
        ("POST", "/v1/runs/{run}/approvals/{call}", decide_early),
        ("GET", "/v1/apps", list_apps),
        ("POST", "/v1/events", send_event),
        ("GET", "/v1/approvals", list_approvals),
        ("GET", "/v1/approvals/{approval}", show_approval),
        ("POST", "/v1/approvals/{approval}", decide_approval),
        ("POST", "/v1/sessions/{session}/beat", renew),
        ("POST", "/v1/sessions/{session}/dead", dead),
        ("GET", "/v1/health", health),
        ("GET", "/v1/ready", ready),
        ("POST", "/v1/test/clock", jump),
    )
}
