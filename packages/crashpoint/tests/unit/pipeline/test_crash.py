"""What is kept of a process's last words and of what it returned."""

import asyncio
from types import SimpleNamespace

import pytest

from crashpoint.pipeline.crash import RESULT_MAX, SAID_MAX, UnusableResult, _Watch


@pytest.fixture
def output(tmp_path):
    return tmp_path / "1"


def said(output, text):
    (output.parent / "1.err").write_bytes(text)
    return _Watch(None, None, output)._said()


def result(output, text):
    (output.parent / "1.json").write_bytes(text)
    return _Watch(None, None, output)._result()


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (b"", ""),
        (b"\n\n", ""),
        (b"one line", "one line"),
        (b"Traceback:\n  File\nValueError: no\n\n  \n", "ValueError: no"),
        (b"  indented  \n", "indented"),
        ("wörter\n".encode(), "wörter"),
        (b"\xff\xfe no text\n", "\ufffd\ufffd no text"),
        (b"\x1b[31mred\x00\r\n", "\ufffd[31mred\ufffd"),
        (b"a\x0bb\x85\n", "a\ufffdb\ufffd"),
        (b"first\n" + b"x" * (1 << 20), "x" * SAID_MAX),
        (b"x" * (1 << 20) + b"\nlast", "last"),
    ],
)
def test_the_last_line_that_says_something(output, text, kept):
    assert said(output, text) == kept


def test_a_process_that_said_nothing(output):
    assert _Watch(None, None, output)._said() == ""


def test_what_was_returned(output):
    assert result(output, b'{"paid": [true, null, 1.5, "\xc3\xa9"]}\n') == {
        "paid": [True, None, 1.5, "é"]
    }


def test_a_process_that_returned_nothing(output):
    assert _Watch(None, None, output)._result() is None


@pytest.mark.parametrize("text", [b"", b'{"paid": tr', b'{"paid": true}'])
def test_what_was_cut_short_was_not_returned(output, text):
    assert result(output, text) is None


def test_the_most_that_can_be_returned(output):
    text = b'"' + b"x" * (RESULT_MAX - 3) + b'"\n'
    assert len(result(output, text)) == RESULT_MAX - 3
    with pytest.raises(UnusableResult, match=f"has more than {RESULT_MAX} bytes"):
        result(output, b'"' + b"x" * RESULT_MAX + b'"\n')


@pytest.mark.parametrize(
    "text",
    [b"NaN\n", b"[Infinity]\n", b'{"a":1,"a":2}\n', b'"\\ud800"\n', b"[" * 65 + b"]" * 65 + b"\n"],
)
def test_what_evidence_cannot_hold(output, text):
    with pytest.raises(UnusableResult, match=r"^what the entry returned cannot be kept: "):
        result(output, text)


class Points:
    """Never reached."""

    async def reached(self):
        await asyncio.Event().wait()
        yield


class Failing:
    """A subject whose keeper dies when it is told to."""

    def __init__(self):
        self.gone = asyncio.get_running_loop().create_future()

    async def exit(self):
        return await asyncio.shield(self.gone)


def test_after_a_time_out_nothing_is_left_waiting(output):
    complaints = []

    async def scenario():
        asyncio.get_running_loop().set_exception_handler(lambda _, c: complaints.append(c))
        subject = Failing()
        hung = await _Watch(subject, Points(), output).until(None, 0.01)
        subject.gone.set_exception(RuntimeError("its keeper was let go"))
        subject.gone.exception()
        assert len(asyncio.all_tasks()) == 1
        return hung

    assert vars(asyncio.run(scenario())) == {"said": "", "passed": ()}
    assert complaints == []


def test_the_end_of_a_process_is_seen(output):
    async def scenario():
        subject = Failing()
        subject.gone.set_result(SimpleNamespace(code=3, leftovers=2))
        return await _Watch(subject, Points(), output).until(None, 10)

    ended = asyncio.run(scenario())
    assert (ended.code, ended.leftovers, ended.result, ended.passed) == (3, 2, None, ())
