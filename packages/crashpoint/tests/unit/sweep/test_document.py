import pytest

from crashpoint.harness.closing import closed
from crashpoint.harness.verify import verify
from crashpoint.pipeline.evidence import EvidenceFault, render
from crashpoint.sweep.document import FORMAT, fault_in, read
from unit.sweep.reports import document


@pytest.mark.parametrize("name", ["careful", "careless", "hasty", "forgetful"])
def test_a_document_fits_itself_and_is_verified(name, tmp_path):
    path = tmp_path / "sweep.json"
    path.write_bytes(render(document(name)))
    assert fault_in(document(name)) is None
    assert "crash scenarios" in verify(path).says
    assert read(path)["format"] == FORMAT


def change_an_outcome(made):
    made["outcomes"]["."] += 1
    made["outcomes"]["D"] -= 1


def change_a_code(made):
    first = next(first for first in made["firsts"] if first["code"] == "D")
    first["code"] = "."


def change_a_square(made):
    first = next(first for first in made["firsts"] if "D" in first["again"])
    first["again"] = first["again"].replace("D", ".", 1)


def drop_a_failure(made):
    del made["failures"][3]


def drop_a_first(made):
    del made["firsts"][0]


def change_the_total(made):
    made["scenarios"] += 1


def change_a_sum(made):
    made["sums"]["dups"] -= 1


def soften_a_failure(made):
    made["failures"][0]["code"] = "L"


def rename_a_point(made):
    made["points"][0] = "renamed"


def tell_of_another(made):
    made["stories"][0]["id"] = "1-nothing"


def invent_an_outcome(made):
    made["outcomes"]["Z"] = made["outcomes"].pop("D")


FORGERIES = [
    change_an_outcome,
    change_a_code,
    change_a_square,
    drop_a_failure,
    drop_a_first,
    change_the_total,
    change_a_sum,
    soften_a_failure,
    rename_a_point,
    tell_of_another,
    invent_an_outcome,
]


@pytest.mark.parametrize("forge", FORGERIES, ids=lambda forge: forge.__name__)
def test_numbers_that_do_not_fit_each_other_are_found(forge):
    made = document()
    forge(made)
    assert fault_in(made) is not None


@pytest.mark.parametrize("forge", FORGERIES, ids=lambda forge: forge.__name__)
def test_a_forgery_with_fresh_seals_is_still_found(forge, tmp_path):
    made = document()
    for seal in ("run_key", "closing", "receipt"):
        del made[seal]
    forge(made)
    path = tmp_path / "sweep.json"
    path.write_bytes(render(closed(made)))
    with pytest.raises(EvidenceFault):
        verify(path)


def test_any_changed_byte_breaks_a_seal(tmp_path):
    made = document()
    made["stories"][0]["said"] = "all is well"
    path = tmp_path / "sweep.json"
    path.write_bytes(render(made))
    with pytest.raises(EvidenceFault, match="receipt"):
        verify(path)


def test_another_format_is_no_sweep(tmp_path):
    path = tmp_path / "other.json"
    path.write_bytes(render({"format": "something/1"}))
    with pytest.raises(EvidenceFault, match="is no sweep"):
        read(path)


def test_it_holds_no_path_of_this_machine():
    text = render(document()).decode()
    assert str(__file__).split("/packages/")[0] not in text.replace("python", "")
