"""A ledger for a module of tests, and receivers of every kind over it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from conformance.receivers.bench import Bench, bench
from conformance.receivers.fronts import FRONTS, Front
from crashpoint.receivers.dialect import Dialect
from crashpoint.receivers.person import TRUTHFUL, ScriptedPerson


@pytest.fixture(scope="module")
def the_bench() -> Iterator[Bench]:
    with bench() as made:
        yield made


@pytest.fixture(params=FRONTS)
def kind(request) -> str:
    return request.param


@pytest.fixture
def receiver_at(kind, the_bench) -> Iterator[Callable[..., Front]]:
    """Opens a receiver: `receiver_at("tracker", KEYED, faults=[...], person=...)`."""
    with ExitStack() as opened:

        def open_one(
            receiver: str, dialect: Dialect, *, faults=(), person: ScriptedPerson = TRUTHFUL
        ) -> Front:
            front = FRONTS[kind](the_bench, receiver, dialect, faults, person)
            opened.enter_context(closing(front))
            return front

        yield open_one
