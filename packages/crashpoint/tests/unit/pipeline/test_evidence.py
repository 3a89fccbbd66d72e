"""Evidence files: one form of writing, the same document read back, whole or not at all."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crashpoint.canonical import canonical, parse
from crashpoint.pipeline.evidence import EvidenceFault, read_document, render, write_atomically

json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=20,
)
names = st.text(st.characters(exclude_categories=["Cs"]))
documents = st.dictionaries(names, json, max_size=5)


@given(documents)
def test_what_is_written_is_read(document):
    text = render(document)
    assert canonical(parse(text)) == canonical(document)
    assert render(parse(text)) == text


@given(st.lists(documents, min_size=1, max_size=4))
def test_objects_of_a_list_stand_on_lines_of_their_own(elements):
    lines = render({"a": 1, "trials": elements}).decode().split("\n")
    # Line separators inside strings are not what `split` splits at.
    assert len(lines) == 5 + len(elements) + 1
    assert lines[:3] == ["{", ' "a": 1,', ' "trials": [']


def test_the_form():
    document = {"b": "é", "a": [1, {"y": 1, "x": None}], "trials": [{"n": 1}, {"n": 2}], "no": []}
    assert render(document).decode() == (
        "{\n"
        ' "b": "é",\n'
        ' "a": [1, {"x": null, "y": 1}],\n'
        ' "trials": [\n'
        '  {"n": 1},\n'
        '  {"n": 2}\n'
        " ],\n"
        ' "no": []\n'
        "}\n"
    )


def test_read_from_a_file(tmp_path):
    path = tmp_path / "a.json"
    write_atomically(path, render({"b": 1, "a": [{"c": 2.5}]}))
    assert read_document(path) == {"b": 1, "a": [{"c": 2.5}]}


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1}',
        '{\n "a":1\n}\n',
        '{\n "a": 1\n}',
        '{\n "a": 1.0e0\n}\n',
        '{\n "a": "\\u00e9"\n}\n',
        '{\n "a": {"y": 1, "x": 2}\n}\n',
        "[]\n",
        "null\n",
    ],
)
def test_another_form_is_refused(tmp_path, text):
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(EvidenceFault, match=r"^it is not in the form in which crashpoint writes"):
        read_document(path)


@pytest.mark.parametrize("text", ["", "{", '{"a": NaN}', '{"a": 1, "a": 1}', '{"a": 1e999}'])
def test_no_json_is_refused(tmp_path, text):
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(EvidenceFault, match=r"^not JSON that can be kept"):
        read_document(path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(EvidenceFault, match=r"^cannot be read: No such file or directory$"):
        read_document(tmp_path / "nowhere")


def test_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    write_atomically(path, b"before")

    def fail(fd):
        assert path.read_bytes() == b"before"
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, b"after")
    assert path.read_bytes() == b"before"
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_replaced_only_once_it_is_durable(tmp_path, monkeypatch):
    path, steps = tmp_path / "a.json", []
    fsync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda fd: steps.append("fsync") or fsync(fd))
    monkeypatch.setattr(
        Path, "replace", lambda self, to: steps.append("replace") or replace(self, to)
    )
    write_atomically(path, b"after")
    assert steps[:2] == ["fsync", "replace"]
    assert path.read_bytes() == b"after"


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        write_atomically(tmp_path / "nowhere" / "a.json", b"x")
