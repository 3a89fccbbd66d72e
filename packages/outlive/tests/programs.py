"""The app that the tests with real processes run. Bodies write a line each into $MARKS.

Where a body has to be caught in the act it waits for the file that its input names.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import subprocess
import time
from pathlib import Path
from typing import Any

from outlive import App, Context, Retry, current


@dataclasses.dataclass(frozen=True)
class Receipt:
    number: int
    key: str


app = App("programs", types=[Receipt], retry=Retry(attempts=1))
MARKS = Path(os.environ.get("MARKS", "marks"))


def mark(text: str) -> None:
    with MARKS.open("a", encoding="utf-8") as file:
        file.write(f"{text} {os.getpid()}\n")


def wait_for(path: str) -> None:
    while not Path(path).exists():
        time.sleep(0.005)


def count(number: int) -> Receipt:
    mark(f"count-{number}")
    return Receipt(number, current().key)


def hold(path: str) -> int:
    """In a thread until the file is there."""
    mark("hold")
    wait_for(path)
    mark("held")
    return os.getpid()


def hold_interpreter(number: int) -> int:
    """In C, so that no other thread of this process runs meanwhile."""
    mark("gil")
    total = sum(range(number))
    mark("gil-over")
    return total


def start_child() -> None:
    child = subprocess.Popen(["sleep", "1000"])
    mark(f"child-{child.pid}")
    wait_for("never")


async def die() -> None:
    mark("die")
    os._exit(7)


@app.workflow
async def steps(ctx: Context, number: int) -> list[Receipt]:
    return [await ctx.step.run("count", count, n) for n in range(number)]


@app.workflow
async def holding(ctx: Context, path: str) -> int:
    await ctx.step.run("before", count, 0)
    return await ctx.step.run("hold", hold, path)


@app.workflow
async def holding_interpreter(ctx: Context, number: int) -> int:
    return await ctx.step.run("gil", hold_interpreter, number)


@app.workflow
async def with_child(ctx: Context) -> None:
    await ctx.step.run("child", start_child)


@app.workflow
async def dying(ctx: Context) -> None:
    await ctx.step.run("die", die)


@app.workflow(on="nap")
async def napping(ctx: Context, duration: str) -> dict[str, Any]:
    first = await ctx.step.run("first", count, 1)
    await ctx.step.sleep("nap", duration)
    second = await ctx.step.run("second", count, 2)
    return {"first": first.number, "second": second.number, "where": str(Path.cwd())}


@app.workflow
async def cleaning(ctx: Context, path: str) -> None:
    try:
        await ctx.step.run("hold", hold, path)
        await ctx.step.sleep("long", "1d")
    except asyncio.CancelledError:
        await ctx.step.run("clean", count, 9)
        raise


@app.workflow
async def asking(ctx: Context, cents: int) -> str:
    answer = await ctx.step.approval("ask", f"refund {cents} cents?", {"cents": cents})
    assert answer is not None
    return f"{answer.by}: {answer.approved}"
