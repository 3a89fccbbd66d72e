import pytest

from crashpoint.pipeline.evidence import EvidenceFault
from crashpoint.report.publish import publish
from unit.report.documents import document


def test_two_pictures_and_a_page_are_written_and_nothing_else(tmp_path):
    paths = publish(document(), tmp_path)
    assert [path.name for path in paths] == ["sample.png", "sample.svg", "sample.html"]
    assert sorted(tmp_path.iterdir()) == sorted(paths)
    starts = [path.read_bytes()[:15].lower() for path in paths]
    assert starts[0].startswith(b"\x89png")
    assert starts[1].startswith(b"<?xml")
    assert starts[2] == b"<!doctype html>"


def test_older_files_are_replaced(tmp_path):
    (tmp_path / "sample.html").write_text("old")
    publish(document(), tmp_path)
    assert (tmp_path / "sample.html").stat().st_size > 1000


@pytest.mark.parametrize("name", ["../up", "a/b", "/abs", "..", "", "."])
def test_a_name_that_is_a_path_is_refused(tmp_path, name):
    inside = tmp_path / "inside"
    inside.mkdir()
    with pytest.raises(EvidenceFault, match="is no name"):
        publish(document(name=name), inside)
    assert list(tmp_path.rglob("*")) == [inside]


def test_a_folder_that_cannot_be_written_is_an_os_error(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        publish(document(), tmp_path / "missing")
