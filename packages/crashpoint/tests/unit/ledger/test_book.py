"""The file: what is in it after an append, a crash, a restart; and what the tally says of it."""

import errno
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


def test_a_sync_that_fails_is_a_fault(folder, monkeypatch):
    def fail(_fd):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    book = Book(folder)
    monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(BookFault, match="Input/output error"):
        book.append(LINES)


@pytest.fixture
def tally():
    fd = Tally.shared()
    yield fd
    os.close(fd)


@pytest.mark.parametrize("acknowledged", range(len(LINES) + 1))
@pytest.mark.parametrize("more", range(3))
def test_a_file_that_holds_what_was_acknowledged_is_gone_on_with(tally, acknowledged, more):
    before = Tally(tally)
    before.resume([])
    for line in LINES[:acknowledged]:
        before.add([line])
    found = [*LINES[:acknowledged], *LINES[:more]]
    after = Tally(tally)
    after.resume(found)
    after.add(LINES)
    Tally(tally).resume([*found, *LINES])
    with pytest.raises(BookFault):
        Tally(tally).resume([*found, *LINES[:-1]])


@pytest.mark.parametrize(
    "found",
    [
        [],
        LINES[:2],
        [LINES[0], LINES[2], LINES[1]],
        [LINES[0].replace(b"1", b"2"), *LINES[1:]],
        [b"x\n", *LINES],
        [*LINES[:2], LINES[2][:-1]],
    ],
)
def test_a_file_that_lacks_some_of_it_is_not(tally, found):
    Tally(tally).add(LINES)
    for _ in range(2):
        with pytest.raises(BookFault, match="changed while no daemon held it: of 34 bytes"):
            Tally(tally).resume(found)


def test_what_a_dead_daemon_acknowledged_outlives_it(tally):
    child = os.fork()
    if child == 0:
        Tally(tally).add(LINES)
        os._exit(0)
    os.waitpid(child, 0)
    with pytest.raises(BookFault):
        Tally(tally).resume(LINES[:2])
    Tally(tally).resume(LINES)
