"""The engine in memory that the SDK is tested against."""

from __future__ import annotations

import asyncio

from fake_engine import Fake, Run, jumping
from outlive import App
from outlive.wire import native_v1 as w


@jumping
async def test_hours_pass_at_once():
    loop = asyncio.get_running_loop()
    before = loop.time()
    await asyncio.sleep(7200)
    assert loop.time() == before + 7200


@jumping
async def test_the_fake_answers_a_second_done_by_nothing():
    fake = Fake(App("a"))
    run = fake.runs["r"] = Run("r", "f", None)
    run.epoch, run.state = 1, "running"
    for _ in range(2):
        fake._hear(w.Done("r", 1, "a#0", 1, True, b"\x01"))
    assert run.kinds() == ["done a#0"]
