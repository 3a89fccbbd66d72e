"""Points are found again by their fields; a reached one is released once."""

import asyncio
from dataclasses import FrozenInstanceError

import pytest

from crashpoint.pipeline.points import GO, Point, Reached


def test_points_are_values():
    assert Point("barrier", "b1") == Point("barrier", "b1", 1, None)
    assert len({Point("barrier", "b1"), Point("barrier", "b1", 2), Point("edge", "b1")}) == 3
    assert Point("barrier", "b0") < Point("barrier", "b1") < Point("barrier", "b1", 2)
    with pytest.raises(FrozenInstanceError):
        Point("barrier", "b1").name = "b2"


@pytest.mark.parametrize(("answer", "heard"), [(None, GO), ({"error": "full"}, {"error": "full"})])
def test_released_once(answer, heard):
    async def scenario():
        reached = Reached(Point("barrier", "b1"), 1, asyncio.get_running_loop().create_future())
        reached.release(answer)
        reached.release({"error": "again"})
        return await reached.answer

    assert asyncio.run(scenario()) == heard


def test_released_after_nobody_waits():
    async def scenario():
        reached = Reached(Point("barrier", "b1"), 1, asyncio.get_running_loop().create_future())
        reached.answer.cancel()
        reached.release()

    asyncio.run(scenario())
