"""The file: what is in it after an append, a crash, a restart; and what the tally says of it."""

import os

import pytest

from crashpoint.ledger import book as book_module
from crashpoint.ledger.book import FILE_NAME, Book, BookFault, lines_in
from crashpoint.ledger.tally import Tally

LINES = [b'{"a":1}\n', b'{"b":"\\u0000"}\n', '{"c":"é"}\n'.encode()]
RECORDS = [{"a": 1}, {"b": "\0"}, {"c": "é"}]


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "ledger"


def opened(folder):
    """The records that a new daemon finds."""
    book = Book(folder)
    book.close()
    return book.recovered


def test_what_was_appended_is_found_again(folder):
    book = Book(folder)
    assert book.recovered == []
    book.append(LINES[:1])
    book.append(LINES[1:])
    assert lines_in(book.path) == LINES
    book.close()
    assert book.path.read_bytes() == b"".join(LINES)
    assert opened(folder) == RECORDS


def test_only_its_owner_may_look(folder):
    Book(folder).close()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / FILE_NAME).stat().st_mode & 0o777 == 0o600


def test_the_room_made_before_is_no_record(folder):
    book = Book(folder)
    book.append(LINES)
    assert book.path.stat().st_size > book_module.ROOM
    assert opened(folder) == RECORDS
    assert book.path.read_bytes() == b"".join(LINES)


def test_it_grows_beyond_its_room(folder, monkeypatch):
    monkeypatch.setattr(book_module, "ROOM", 10)
    book = Book(folder)
    for _ in range(5):
        book.append(LINES)
    book.append([b'"%s"\n' % (b"x" * 100)])
    assert lines_in(book.path) == LINES * 5 + [b'"%s"\n' % (b"x" * 100)]


@pytest.mark.parametrize("room", [b"", bytes(100)])
@pytest.mark.parametrize("cut", range(1, len(LINES[2])))
def test_a_torn_line_is_dropped_and_written_over(folder, cut, room):
    Book(folder).close()
    path = folder / FILE_NAME
    path.write_bytes(b"".join(LINES[:2]) + LINES[2][:cut] + room)
    book = Book(folder)
    assert book.recovered == RECORDS[:2]
    assert path.read_bytes() == b"".join(LINES[:2])
    book.append([b"3\n"])
    book.close()
    assert path.read_bytes() == b"".join(LINES[:2]) + b"3\n"


def test_a_line_that_is_no_record_is_a_fault_with_its_number(folder):
    Book(folder).close()
    path = folder / FILE_NAME
    path.write_bytes(LINES[0] + b"garbage\n" + LINES[1])
    with pytest.raises(BookFault, match=f"{path} line 2: not JSON"):
        Book(folder)


def test_a_folder_that_cannot_be_made_is_a_fault(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(BookFault, match=r"cannot open the ledger .*file/ledger/ledger.jsonl"):
        Book(tmp_path / "file" / "ledger")


def test_a_disk_that_is_full_is_a_fault_with_a_remedy(folder):
    book = Book(folder)
    full = os.open("/dev/full", os.O_RDWR)
    os.dup2(full, book._fd)
    os.close(full)
    with pytest.raises(BookFault, match=r"No space left on device; free space or .* TMPDIR"):
        book.append(LINES)


@pytest.fixture
def tally():
    fd = Tally.shared()
    yield Tally(fd), Tally(fd)
    os.close(fd)


def test_the_tally_fits_the_file_it_was_told_of(folder, tally):
    written, read = tally
    book = Book(folder)
    assert read.fault_in(book.path) is None
    for line in LINES:
        book.append([line])
        written.add([line])
        assert read.fault_in(book.path) is None
    book.append(LINES)
    assert read.fault_in(book.path) is None, "more than was acknowledged may be there"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "has 0 bytes of records, 34 were acknowledged"),
        (b"".join(LINES[:2]), "has 23 bytes of records, 34 were acknowledged"),
        (b"".join(LINES)[:-1] + bytes(50), "has 23 bytes"),
        (b"".join([LINES[0], LINES[2], LINES[1]]), "does not hold what was acknowledged"),
        (b"".join(LINES).replace(b"1", b"2"), "does not hold what was acknowledged"),
    ],
)
def test_the_tally_does_not_fit_another_file(tmp_path, tally, content, said):
    written, read = tally
    written.add(LINES)
    path = tmp_path / FILE_NAME
    path.write_bytes(content)
    assert said in read.fault_in(path)
