"""The workflow under test, order: pay, confirm, and the runner that runs it. Inside the subject.

The rows differ in nothing but how `pay` makes its key; nothing here deduplicates. A body announces
in the thread of the runner's loop, which stands still with it: nothing in this process can send a
result meanwhile. b2 is announced by `confirm`, which begins once `pay` is durable.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import socket
from collections.abc import Callable
from typing import Any

import uvloop

from crashpoint.inside.client import effect, reach
from outlive import App, Context, Runner, current
from outlive.client import Client

EFFECT = "charge"
RESULT_S = 60.0
"""Longest wait for the run's end, seconds; the bench ends the process before."""


def start(engine: str, warden: str, run: str, effect_mode: str, determinism: str) -> Any:
    """Start the run and work for its app; returns the run's result once it has one."""
    Client(engine).start("order", "order-7", app=run, id=run)
    return resume(engine, warden, run, effect_mode, determinism)


def resume(engine: str, warden: str, run: str, effect_mode: str, determinism: str) -> Any:
    """Work for the app as one more runner; returns the run's result once it has one."""
    runner = Runner(
        _app(run, effect_mode, determinism),
        engine,
        name=f"{run}:{os.getpid()}",
        supervised=bool(warden),
        on_session=_teller(warden) if warden else None,
    )
    return uvloop.run(_until_result(runner, Client(engine), run))


async def _until_result(runner: Runner, client: Client, run: str) -> Any:
    serving = asyncio.create_task(runner.serve())
    asking = asyncio.create_task(asyncio.to_thread(client.result, run, timeout_s=RESULT_S))
    await asyncio.wait({serving, asking}, return_when=asyncio.FIRST_COMPLETED)
    if not serving.done():
        runner.stop()
    await serving
    return await asking


def _teller(warden: str) -> Callable[[str, str, int], None]:
    """What tells the warden of a session, or of its end, and returns once it knows."""

    def tell(session: str, token: str, ttl_ms: int) -> None:
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(warden)
            line.sendall(json.dumps([session, token, ttl_ms]).encode() + b"\n")
            if line.recv(1) != b"\n":
                raise RuntimeError("the warden hung up")

    return tell


def _app(name: str, effect_mode: str, determinism: str) -> App:
    app = App(name)

    async def pay(order: str) -> dict[str, Any]:
        action = {"charge": order, "cents": 1999}
        if determinism == "drawn":
            action["memo"] = os.urandom(8).hex()
        content = hashlib.sha256(json.dumps(action, sort_keys=True).encode()).hexdigest()
        keys = {"naive": None, "idempotent": content, "twophase": current().key}
        reach("b0")
        effect(EFFECT, action, keys[effect_mode])
        reach("b1")
        return action

    async def confirm() -> bool:
        reach("b2")
        return True

    @app.workflow
    async def order(ctx: Context, given: str) -> dict[str, Any]:
        payment = await ctx.step.run("pay", pay, given)
        return {"payment": payment, "confirmed": await ctx.step.run("confirm", confirm)}

    return app
