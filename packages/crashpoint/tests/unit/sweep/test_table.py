from functools import cache

import pytest

from crashpoint.sweep.designs import DESIGNS
from crashpoint.sweep.engine import Sweep
from crashpoint.sweep.published import differences
from crashpoint.sweep.table import MODES, count


@cache
def row(title, mode, *, dedupe):
    design = next(design for design in DESIGNS if design.title == title)
    with MODES[mode](design) as crasher:
        return count(design, Sweep(crasher, dedupe=dedupe), lambda _scenario: None)


TITLES = [design.title for design in DESIGNS]


@pytest.mark.parametrize("mode", ["raise", "files"])
@pytest.mark.parametrize("title", TITLES)
def test_the_table_is_the_published_one(title, mode):
    assert differences([vars(row(title, mode, dedupe=True))]) == []


@pytest.mark.parametrize("title", TITLES)
def test_equal_worlds_recovered_once_change_no_count(title):
    assert row(title, "raise", dedupe=False) == row(title, "raise", dedupe=True)
