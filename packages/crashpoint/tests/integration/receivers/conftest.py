"""A ledger for the whole session."""

from collections.abc import Iterator

import pytest

from conformance.receivers.bench import Bench, bench


@pytest.fixture(scope="module")
def the_bench() -> Iterator[Bench]:
    with bench() as made:
        yield made
