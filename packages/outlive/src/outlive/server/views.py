"""What people are shown: runs, their record, why they do not move, and what will move them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from outlive.core.rows import ApprovalRow, RunRow, WaitRow
from outlive.core.tables import Run
from outlive.server.book import FINAL, Refusal, Stored, wait_key
from outlive.server.records import row_of
from outlive.store.api import Key
from outlive.wire.values import as_json

if TYPE_CHECKING:
    from outlive.server.engine import Engine

__all__ = ["approval_view", "approvals_view", "run_view", "runs_view", "short_view", "steps_view"]

SCAN: Final = 500
SHOWN_MAX: Final = 65_536
"""Bytes of a value that is shown among others."""


def short_view(row: RunRow) -> dict[str, Any]:
    """A run in a list."""
    view: dict[str, Any] = {
        "id": row.id,
        "app": row.app,
        "workflow": row.workflow,
        "state": row.state.value,
        "started_ms": row.made_ms,
        "changed_ms": row.changed_ms,
    }
    if row.value_bytes:
        view["value_bytes"] = row.value_bytes
    if row.state is Run.COMPLETED and (row.value or not row.value_bytes):
        view["result"] = as_json(row.value)
    elif row.state is Run.FAILED and row.value:
        view["error"] = _error(row.value)
    if row.unsettled or row.state in FINAL:
        view["unsettled"] = row.unsettled
    if row.cause:
        view["cause"] = row.cause
    return view


def _error(value: bytes) -> Any:
    error = as_json(value)
    if isinstance(error, list) and len(error) == 3:
        return {"type": error[0], "message": error[1]}
    return error


async def run_view(engine: Engine, row: RunRow) -> dict[str, Any]:
    """A run with who has it, why it does not move, and what will move it."""
    view = short_view(row)
    view["epoch"] = row.epoch
    view["deaths"] = row.deaths
    if row.parent:
        view["parent"] = row.parent
    if row.versions:
        view["versions"] = row.versions
    session = engine.sessions.all.get(row.session)
    if session is not None:
        view["holder"] = session.runner
    why, then = await _why(engine, row)
    if row.state not in FINAL:
        view["why"] = why
        view["next"] = then
    return view


async def _why(engine: Engine, row: RunRow) -> tuple[str, list[dict[str, Any]]]:
    if row.session:
        return _held(engine, row)
    if row.state is Run.NEEDS_ATTENTION:
        return row.cause, [{"what": "a person: resume, supply a result, or cancel"}]
    if row.asleep:
        waits = await _open_waits(engine, row)
        return f"it waits for {len(waits)} thing{'s'[: len(waits) != 1]}", waits
    able = [
        s for s in engine.sessions.all.values() if s.app == row.app and row.workflow in s.workflows
    ]
    if not able:
        return (
            f"no runner has workflow {row.workflow} of app {row.app}",
            [{"what": "a runner that connects with it"}],
        )
    if row.deaths:
        why = f"its process died {row.deaths} times, so it is tried with nothing else beside it"
        return why, [{"what": "a runner that has nothing else"}]
    full = [s for s in able if not s.open]
    return f"{len(full)} of {len(able)} runners are full or away", [{"what": "a runner with room"}]


def _held(engine: Engine, row: RunRow) -> tuple[str, list[dict[str, Any]]]:
    session = engine.sessions.all.get(row.session)
    if session is None:
        return "its session has ended", [{"what": "the queue"}]
    left = session.ttl_s - (engine.clock.steady_s() - session.renewed_s)
    live = session.runs.get(row.id)
    bodies = sorted(live.bodies) if live else []
    doing = f"runs {', '.join(bodies)}" if bodies else "runs its code"
    if session.link is None:
        why = f"runner {session.runner} has it and is not connected"
        return why, [
            {"what": "the runner's return, or the end of its lease", "in_s": round(left, 1)}
        ]
    why = f"runner {session.runner} {doing}"
    return why, [{"what": "the runner, or the end of its lease", "in_s": round(left, 1)}]


async def _open_waits(engine: Engine, row: RunRow) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for body in (await engine.store.entries(row.no))[1:]:
        entry = msgspec.msgpack.decode(body, type=Stored)
        if entry.kind == "asked":
            kind, about, due = msgspec.msgpack.decode(entry.value)
            found[entry.call] = {
                "what": _what(kind, msgspec.msgpack.decode(about)),
                "call": entry.call,
                "at_ms": due,
            }
        else:
            found.pop(entry.call, None)
    return list(found.values())


def _what(kind: str, about: dict[str, Any]) -> str:
    if kind == "event":
        return f"event {about['name']}"
    if kind == "child":
        return f"the end of a run of {about['workflow']}"
    if kind == "approve":
        return f"a person: {about['title']}"
    return "its time"


async def steps_view(
    engine: Engine, row: RunRow, *, after: int = 0, limit: int | None = None
) -> list[dict[str, Any]]:
    """The record, entry by entry; of a large value only how large it is."""
    view = []
    bodies = await engine.store.entries(row.no, after)
    for seq, body in enumerate(bodies[:limit], after + 1):
        entry = msgspec.msgpack.decode(body, type=Stored)
        shown: dict[str, Any] = {
            "seq": seq,
            "kind": entry.kind,
            "call": entry.call,
            "at_ms": entry.at_ms,
            "ok": entry.ok,
        }
        if entry.attempt:
            shown["attempt"] = entry.attempt
        if entry.kind == "asked":
            kind, about, due = msgspec.msgpack.decode(entry.value)
            shown["wait"] = _what(kind, msgspec.msgpack.decode(about))
            shown["due_ms"] = due
        elif entry.kind == "tried":
            again_ms, error = msgspec.msgpack.decode(entry.value)
            shown["again_ms"], shown["error"] = again_ms, _error(error)
        elif len(entry.value) > SHOWN_MAX:
            shown["value_bytes"] = len(entry.value)
        elif entry.ok:
            shown["value"] = as_json(entry.value)
        else:
            shown["error"] = _error(entry.value)
        view.append(shown)
    return view


async def runs_view(
    engine: Engine, *, app: str | None, state: str | None, after: int, limit: int
) -> dict[str, Any]:
    """A page of runs, in the order in which they were started."""
    if state is not None and state not in set(Run):
        raise Refusal(f"there is no state {state!r}; there are {', '.join(Run)}", 400)
    await engine.no_lease_is_over()
    shown: list[dict[str, Any]] = []
    more = True
    while more and len(shown) < limit:
        # One more than is wanted says whether there are more; of one app, some are passed over.
        wanted = min(SCAN, limit - len(shown) + 1) if app is None else SCAN
        page = await engine.store.page("run", state, after, wanted)
        more = len(page) == wanted
        for n, record in enumerate(page, 1):
            after = record.number
            row = row_of(record, RunRow)
            if app is None or row.app == app:
                shown.append(short_view(row))
                if len(shown) == limit:
                    more = more or n < len(page)
                    break
    return {"runs": shown, "after": after if more else None}


def approval_view(row: ApprovalRow) -> dict[str, Any]:
    """An approval."""
    view: dict[str, Any] = {
        "id": row.id,
        "run": row.run,
        "call": row.call,
        "title": row.title,
        "details": as_json(row.details),
        "digest": row.digest,
        "state": row.state.value,
        "asked_ms": row.made_ms,
    }
    if row.decided_ms:
        view |= {"decided_ms": row.decided_ms, "by": row.by, "comment": row.comment}
    return view


async def approvals_view(engine: Engine, state: str | None, limit: int) -> dict[str, Any]:
    """Approvals of a state, the oldest first."""
    page = await engine.store.page("approval", state, 0, limit)
    rows = [row_of(record, ApprovalRow) for record in page]
    waits = await engine.store.load([Key("wait", wait_key(row.run, row.call)) for row in rows])
    shown = []
    for row, wait in zip(rows, waits, strict=True):
        view = approval_view(row)
        due = row_of(wait, WaitRow).due_ms if wait is not None else None
        if due is not None:
            view["until_ms"] = due
        shown.append(view)
    return {"approvals": shown}
