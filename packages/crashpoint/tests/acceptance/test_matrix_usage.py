"""Wrong usage of the matrix command: exit status 2, one line that says what and what to do instead,
and nothing written.
"""

import pytest
from click.testing import CliRunner

from acceptance.runs import MATRIX
from crashpoint.cli import main as crashpoint
from crashpoint.harness.matrix import command
from leftovers import nothing_left

RIGHT = {"--k": "1", "--runtimes": "r_dup", "--name": "m", "--barriers": "b1"}


def refused(arguments, *, by=command, before=()):
    """The message, after checks of everything else."""
    done = CliRunner().invoke(by, [*before, *arguments])
    assert isinstance(done.exception, SystemExit)
    assert done.exit_code == 2
    assert done.stdout == ""
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert done.stderr.endswith(line + "\n")
    return line


def arguments(out, **changed):
    options = (
        RIGHT | {"--out": str(out)} | {f"--{n.replace('_', '-')}": v for n, v in changed.items()}
    )
    return [word for option, value in options.items() for word in (option, value)]


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("runtimes", "r_nul", "no row 'r_nul'; registered are r_null, r_dup"),
        ("runtimes", "r_dup,r_nul", "no row 'r_nul'"),
        ("runtimes", "r_dup,../x", "no row '../x'"),
        ("runtimes", "", "name at least one row"),
        ("runtimes", ",", "name at least one row"),
        ("barriers", "b3", "no barrier 'b3'; there are b0, b1, b2"),
        ("barriers", "b1,B2", "no barrier 'B2'"),
        ("barriers", "", "name at least one of b0, b1, b2"),
        ("k", "0", "0 is not in the range 1<=x<=1000000"),
        ("k", "-1", "-1 is not in the range 1<=x<=1000000"),
        ("k", "abc", "'abc' is not a valid integer"),
        ("k", "1.5", "'1.5' is not a valid integer"),
        ("jobs", "0", "0 is not in the range"),
        ("cold", "-1", "-1 is not in the range"),
        ("name", "a/b", "'a/b' is no name"),
        ("name", "/tmp/m", "'/tmp/m' is no name"),
        ("name", "..", "'..' is no name"),
        ("name", "../m", "'../m' is no name"),
        ("name", "m\0", "'m\\x00' is no name"),
        ("name", "", "'' is no name"),
        ("name", "m m", "'m m' is no name"),
        ("name", "m\n", "'m\\n' is no name"),
        ("name", "m" * 101, f"{'m' * 101!r} is no name"),
        ("fault", "sneeze", "'sneeze' is not one of 'kill', 'freeze'"),
        ("void_max", "2", "2.0 is not in the range 0<=x<=1"),
        ("void_max", "-0.1", "-0.1 is not in the range"),
        ("void_max", "nan", "nan is not a finite number"),
        ("timeout", "0", "0.0 is not in the range x>0"),
        ("timeout", "-3", "-3.0 is not in the range"),
        ("timeout", "nan", "nan is not a finite number"),
        ("timeout", "inf", "inf is not a finite number"),
        ("timeout", "soon", "'soon' is not a valid float"),
    ],
)
def test_a_value_that_cannot_be(tmp_path, option, value, says):
    assert says in refused(arguments(tmp_path, **{option: value}))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["--runtimes", "--name"])
def test_a_value_that_is_missing(tmp_path, option):
    given = arguments(tmp_path)
    at = given.index(option)
    assert f"Missing option '{option}'" in refused(given[:at] + given[at + 2 :])


def test_an_option_that_is_not_there(tmp_path):
    assert "--retries" in refused([*arguments(tmp_path), "--retries", "3"])


def test_the_other_form_of_the_command_refuses_alike(tmp_path):
    given = arguments(tmp_path, k="0")
    assert refused(given) == refused(given, by=crashpoint, before=["matrix"])


def test_out_is_a_file(tmp_path):
    file = tmp_path / "file"
    file.write_text("here already")
    assert f"Directory '{file}' is a file" in refused(arguments(file))
    assert file.read_text() == "here already"


def test_out_is_below_a_file(tmp_path):
    file = tmp_path / "file"
    file.write_text("here already")
    assert refused(arguments(file / "out")) == (
        f"Error: cannot write to {file / 'out'}: Not a directory; choose another --out"
    )


def test_out_cannot_be_written_to():
    assert refused(arguments("/proc/out")) == (
        "Error: cannot write to /proc/out: No such file or directory; choose another --out"
    )


def test_a_folder_is_in_the_place_of_the_file(tmp_path):
    (tmp_path / "m.partial.jsonl").mkdir()
    assert refused(arguments(tmp_path)) == (
        f"Error: cannot write to {tmp_path / 'm.partial.jsonl'}: Is a directory; "
        "choose another --out"
    )


def test_tmpdir_is_missing(tmp_path, monkeypatch):
    # Short, so that it is not the length that is refused.
    missing = f"/tmp/{tmp_path.name[-20:]}-nowhere"
    monkeypatch.setenv("TMPDIR", missing)
    line = refused(arguments(tmp_path / "out"))
    assert line.startswith(
        f"Error: cannot make a temporary folder: No such file or directory ({missing}"
    )
    assert line.endswith("; set TMPDIR to a folder that can be written to")
    assert list((tmp_path / "out").iterdir()) == []


def test_tmpdir_is_too_long_for_a_socket(tmp_path, monkeypatch):
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setenv("TMPDIR", str(long))
    line = refused(arguments(tmp_path / "out"))
    assert line.startswith(f"Error: socket path too long: {long}/crashpoint-")
    assert line.endswith(
        "bytes, the kernel allows 107; set TMPDIR to a shorter folder, for example TMPDIR=/tmp"
    )
    assert list((tmp_path / "out").iterdir()) == []
    assert list(long.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "code"),
    [({"k": "0"}, 2), ({"name": "a/b"}, 2), ({"runtimes": "r_dup,r_nul"}, 2)],
)
def test_as_typed(change, code):
    with nothing_left() as place:
        done = place.run(*MATRIX, *arguments(place.out, **change))
        assert done.returncode == code
        assert sum(line.startswith("Error: ") for line in done.stderr.splitlines()) == 1
        assert "Traceback" not in done.stderr
        assert list(place.out.iterdir()) == []


def test_help_tells_the_exit_statuses():
    done = CliRunner().invoke(command, ["--help"])
    assert done.exit_code == 0
    words = " ".join(done.stdout.split())
    assert "0 every cell agrees with its prediction, 1 one does not, 2 wrong usage, 3 too" in words
