"""Where code and record differ, in one line that a person can act on."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from outlive.wire.values import Codec, NotStorable

if TYPE_CHECKING:
    from outlive.sdk.app import Workflow
    from outlive.sdk.calls import Call
    from outlive.wire.native_v1 import Entry

__all__ = [
    "Traced",
    "code_line",
    "drifted",
    "first_difference",
    "recorded",
    "user_line",
    "waiting_line",
]

_OURS: Final = str(Path(__file__).parent.parent) + os.sep
_ASYNCIO: Final = str(Path(asyncio.__file__).parent) + os.sep


class Traced:
    """A call that code made, and where; `mark` is what must be the same on a replay."""

    __slots__ = ("kind", "line", "mark", "name")

    def __init__(self, name: str, kind: str, mark: bytes, line: str) -> None:
        self.name = name
        self.kind = kind
        self.mark = mark
        self.line = line


def given(codec: Codec, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    """What a step is given, as bytes; empty if that cannot be said in bytes."""
    try:
        return codec.encode([list(args), kwargs])
    except (NotStorable, RecursionError):
        return b""


def first_difference(
    live: Sequence[Traced],
    replayed: Sequence[Traced],
    ends: tuple[tuple[str, bytes] | None, tuple[str, bytes] | None],
) -> str:
    """One line on the first call, or end, in which two passes of the same code differ; or empty."""
    for one, two in zip(live, replayed, strict=False):
        if (one.name, one.kind) != (two.name, two.kind):
            return (
                f"{one.line}: the code drifts: it asked for {one.name} ({one.kind}), and on replay "
                f"for {two.name} ({two.kind}) at {two.line}"
            )
        if one.mark != two.mark:
            return (
                f"{one.line}: the code drifts: {one.name} is given other values on replay; take "
                "them from a step, ctx.now, ctx.random or ctx.uuid4"
            )
    if len(live) > len(replayed):
        more = live[len(replayed)]
        return f"{more.line}: the code drifts: it asked for {more.name}, and on replay did not"
    if len(live) < len(replayed):
        more = replayed[len(live)]
        return (
            f"{more.line}: the code drifts: on replay it asks for {more.name}, and did not before"
        )
    if ends[0] != ends[1]:
        first, second = ("goes on" if end is None else f"ends as {end[0]}" for end in ends)
        other = " with another value" if first == second else ""
        line = replayed[-1].line if replayed else "?"
        return f"{line}: the code drifts after this: it {first}, and on replay {second}{other}"
    return ""


def drifted(entry: Entry, call: Call | None, calls: Sequence[Call], line: str, ended: str) -> str:
    """The cause of a park: what is recorded, and what the code does instead."""
    if call is not None:
        code = f"makes {call.name} as {_KINDS.get(call.kind, call.kind)}"
    elif waiting := [call.name for call in calls if not call.future.done()]:
        more = f" and {len(waiting) - 3} more" if len(waiting) > 3 else ""
        code = f"waits for {', '.join(waiting[:3])}{more}"
    else:
        code = f"has {ended} without it" if ended else "has not asked for it"
    return (
        f"the code has changed in a way the record cannot bear: recorded: {recorded(entry)}; "
        f"code: {code}{f' ({line})' if line else ''}"
    )


def recorded(entry: Entry) -> str:
    """An entry in words."""
    return f"entry {entry.seq}, {entry.call} {entry.kind}"


_KINDS: Final = {"step": "a step", "sleep": "a sleep", "event": "a wait for an event"}


def user_line(flow: Workflow[Any, Any]) -> str:
    """`file:line` of the nearest caller that is neither this package nor asyncio."""
    frame = sys._getframe(1)  # noqa: SLF001  the inspect module does the same, 100 times slower
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((_OURS, _ASYNCIO)):
            return f"{name}:{frame.f_lineno}"
        if frame.f_back is None:
            break
        frame = frame.f_back
    return code_line(flow)


def code_line(flow: Workflow[Any, Any]) -> str:
    """`file:line` of the workflow's function."""
    code = getattr(flow.__wrapped__, "__code__", None)
    return "?" if code is None else f"{code.co_filename}:{code.co_firstlineno}"


def waiting_line(task: asyncio.Task[Any] | None) -> str:
    """`file:line` where the innermost user code of a task waits; empty if there is none."""
    found = ""
    inner: Any = None if task is None or task.done() else task.get_coro()
    while inner is not None:
        frame = getattr(inner, "cr_frame", None)
        if frame is not None and not frame.f_code.co_filename.startswith((_OURS, _ASYNCIO)):
            found = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        inner = getattr(inner, "cr_await", None)
    return found
