import pytest
from hypothesis import given
from hypothesis import strategies as st

from crashpoint.sweep.api import path_of
from crashpoint.sweep.words import SweepFault, id_of

NAMES = st.text(max_size=20) | st.sampled_from(
    ["written:v1.2-final", "a.3-b", "..4-", "tmp:state.json", "50%", "%2E", "1-x.2-y"]
)


@given(st.lists(st.tuples(st.integers(1, 10_000), NAMES), min_size=1, max_size=4))
def test_a_path_is_read_back_from_an_id_whatever_the_points_are_called(crashes):
    path, names = zip(*crashes, strict=True)
    assert path_of(id_of(path, names)) == path


@given(st.lists(NAMES, min_size=2, max_size=2))
def test_points_with_different_names_have_different_ids(names):
    one, other = names
    assert (id_of([1], [one]) == id_of([1], [other])) is (one == other)


@given(st.text())
def test_an_id_is_one_line_without_spaces(name):
    assert id_of([1], [name]).isprintable()
    assert " " not in id_of([1], [name])


def test_an_id_reads_as_the_points_are_called():
    assert id_of((8, 3), ("accepted:comment", "renamed:state.json")) == (
        "8-accepted:comment.3-renamed:state.json"
    )


@pytest.mark.parametrize("text", ["", "8", "accepted", "x8-accepted", ".8-accepted", "-", "8.3"])
def test_what_is_no_id_is_refused_with_an_example(text):
    with pytest.raises(SweepFault, match="an id looks like 8-accepted:comment"):
        path_of(text)
