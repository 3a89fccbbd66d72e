"""A place with its marked processes, and a bell in it."""

import pytest

from events import Bell
from leftovers import nothing_left


@pytest.fixture
def place(monkeypatch):
    """A place for processes that this process starts; they carry its mark."""
    with nothing_left() as place:
        for name, value in place.mark.items():
            monkeypatch.setenv(name, value)
        yield place


@pytest.fixture
def bell(place):
    bell = Bell(place.out / "bell")
    yield bell
    bell.close()
    (place.out / "bell").unlink()
