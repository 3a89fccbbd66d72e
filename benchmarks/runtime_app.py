"""What the runners of benchmarks/runtime.py run: `python runtime_app.py ENGINE MARKS`.

A body appends a line to MARKS, outside of engine and runner: when it began, in which process, of
which run, which step. What the engine names the session goes to the output, for whoever watches.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import Any, Final

from outlive import App, Context, Runner

ROOM: Final = 10_000
app = App("bench")
_marks = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


def mark(run: str, step: int) -> None:
    """Say that a body begins."""
    line = f"{time.monotonic_ns()} {os.getpid()} {run} {step}\n"
    os.write(_marks, line.encode())


async def work(run: str, step: int) -> dict[str, Any]:
    """The body of a plain step: about 60 bytes as a result."""
    mark(run, step)
    return {"run": run[-8:], "step": step, "amount": 1250, "charged": True}


async def held(run: str, path: str) -> str:
    """The first attempt at it never ends by itself."""
    mark(run, 0)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return "again"
    await asyncio.Event().wait()
    return "never"


@app.workflow
async def steps(ctx: Context, number: int) -> int:
    """So many steps, one after the other."""
    for n in range(number):
        await ctx.step.run(f"step-{n}", work, ctx.run_id, n)
    return number


@app.workflow
async def holding(ctx: Context, path: str) -> str:
    """One step, held in its body until its process is killed."""
    return await ctx.step.run("held", held, ctx.run_id, path)


@app.workflow
async def sleeping(ctx: Context, seconds: int) -> None:
    """Sleep."""
    await ctx.step.sleep("nap", seconds)


runner = Runner(app, sys.argv[1], room=ROOM)


@runner.on_session
def named(session: str, token: str, ttl_ms: int) -> None:
    """Tell whoever watches this process."""
    print(session, token, ttl_ms, flush=True)


if __name__ == "__main__":
    runner.run()
