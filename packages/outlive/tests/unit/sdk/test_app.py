"""Apps, workflows, and what is refused as one."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

import outlive
from outlive import App, BadWorkflow


def test_a_workflow_is_named_after_its_function_and_says_what_starts_it():
    app = App("a")

    @app.workflow
    async def one(ctx, given):
        """What it does."""

    @app.workflow(name="two", on="x.made")
    async def other(ctx):
        pass

    @app.workflow(on=["x", "y"])
    async def three(ctx, given=None):
        pass

    assert {name: flow.on for name, flow in app.workflows.items()} == {
        "one": (),
        "two": ("x.made",),
        "three": ("x", "y"),
    }
    assert (one.takes_input, other.takes_input, three.takes_input) == (True, False, True)
    assert one.__doc__ == "What it does."


def test_a_workflow_can_be_called_as_the_function_it_is():
    app = App("a")

    @app.workflow
    async def double(ctx, number):
        return ctx * number

    assert asyncio.run(double(3, 4)) == 12


def plain(ctx):
    return None


async def none():
    pass


async def many(ctx, one, two):
    pass


async def named(ctx, one, *, two):
    pass


async def stream(ctx):
    yield 1


@pytest.mark.parametrize("fn", [plain, none, many, named, stream, 3, print])
def test_another_kind_of_function_is_refused(fn):
    with pytest.raises(BadWorkflow) as caught:
        App("a").workflow(fn)
    assert "\n" not in str(caught.value)


def test_a_name_is_taken_once():
    app = App("a")

    async def flow(ctx):
        pass

    app.workflow(flow)
    with pytest.raises(BadWorkflow, match="'flow'"):
        app.workflow(flow)


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 201, None])
def test_names_are_printable_and_short(name):
    with pytest.raises(ValueError, match="App name"):
        App(name)
    with pytest.raises(BadWorkflow):
        App("a").workflow(name=name if name is not None else 3)(many_of_two)


async def many_of_two(ctx, one):
    pass


def test_one_on_failure_which_is_async():
    app = App("a")

    @app.workflow
    async def flow(ctx):
        pass

    with pytest.raises(BadWorkflow, match="async"):
        flow.on_failure(lambda ctx, error: None)

    @flow.on_failure
    async def failed(ctx, error):
        pass

    with pytest.raises(BadWorkflow, match="already"):
        flow.on_failure(failed)


def test_what_is_exported_is_there_and_import_opens_no_network():
    for name in outlive.__all__:
        assert getattr(outlive, name) is not None
    with pytest.raises(AttributeError, match="Nothing"):
        _ = outlive.Nothing
    code = "import sys, outlive; print([m for m in sys.modules if m in ('websockets', 'uvicorn')])"
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert there.stdout.strip() == "[]"
