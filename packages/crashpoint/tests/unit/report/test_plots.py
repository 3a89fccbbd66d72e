import re
import struct
import subprocess
import sys
import zlib
from xml.etree import ElementTree as ET

import pytest

from crashpoint.model import Outcome
from crashpoint.report import plots
from crashpoint.report.palette import PALETTE
from unit.report.documents import document, trial


@pytest.fixture
def readable(monkeypatch):
    """Letters as text, so that a test can read the picture."""
    monkeypatch.setitem(plots.STYLE, "svg.fonttype", "none")


def words(made) -> list[str]:
    root = ET.fromstring(plots.svg(made))
    return ["".join(node.itertext()) for node in root.iter("{http://www.w3.org/2000/svg}text")]


def with_b1(*outcomes: str, **members):
    trials = [trial("r_dup", "b1", n, outcome) for n, outcome in enumerate(outcomes)]
    return document(["r_dup"], barriers=["b1"], trials=trials, k=len(outcomes), **members)


def test_the_same_document_makes_the_same_bytes():
    made = document()
    assert plots.svg(made) == plots.svg(made)
    assert plots.png(made) == plots.png(made)


def test_the_picture_carries_the_receipt_and_no_date():
    made = document(receipt="sha256:" + "7" * 64)
    picture = plots.png(made)
    assert b"tEXtSource\0sha256:" + b"7" * 64 in picture
    drawing = plots.svg(made).decode()
    assert "7" * 64 in drawing
    assert "<dc:date>" not in drawing
    assert "<text" not in drawing, "letters are paths, so they look the same everywhere"


def test_the_png_is_wide_enough_for_a_page_and_whole():
    picture = plots.png(document())
    width, height = struct.unpack(">II", picture[16:24])
    assert 1000 <= width <= 2400
    assert height < width
    at, data = 8, b""
    while at < len(picture):
        length, kind = struct.unpack(">I4s", picture[at : at + 8])
        data += picture[at + 8 : at + 8 + length] if kind == b"IDAT" else b""
        at += length + 12
    assert len(zlib.decompress(data)) == height * (4 * width + 1)


def test_cells_say_outcome_hits_and_interval(readable):
    shown = words(document(["r_dup"]))
    assert shown.count("EXACTLY_ONCE") == 3, "two cells and the legend"
    assert shown.count("DUPLICATED") == 2
    assert shown.count("2/2   34.2-100.0%") == 3
    assert {"b0", "b1", "b2", "r_dup", "sample: what kill did to each row"} <= set(shown)


def test_the_caption_names_command_fault_and_versions(readable):
    shown = " ".join(words(document()))
    assert "python -m crashpoint.harness.matrix --k 2 --runtimes r_dup --name sample" in shown
    assert "fault kill, k = 2, 12 trials; engine controls: engine 1.2.3, cpython 3.11.7" in shown


@pytest.mark.parametrize(
    ("outcomes", "mark"),
    [
        (["DUPLICATED"] * 2, None),
        (["LOST"] * 2, "\N{MULTIPLICATION SIGN} predicted DUPLICATED"),
        (["DUPLICATED", "DUPLICATED", "LOST"], "\N{MULTIPLICATION SIGN} 1 differ"),
        (["VOID"] * 2, "\N{MULTIPLICATION SIGN} 2 of 2 VOID"),
    ],
)
def test_what_was_not_predicted_is_marked(readable, outcomes, mark):
    made = with_b1(*outcomes)
    found = [word for word in words(made) if word.startswith("\N{MULTIPLICATION SIGN}")]
    assert found == ([mark] if mark else [])
    frames = plots.svg(made).decode().count(f"stroke: {plots.ALARM}")
    assert frames == (2 if mark else 1), "the legend's frame, and the cell's"


def test_a_red_prediction_is_outlined_whether_it_was_seen_or_not():
    def outlines(made) -> int:
        return plots.svg(made).decode().count("stroke-dasharray")

    green = document(
        ["r_idem"], barriers=["b1"], control_trials=[trial("r_dup", "b1", 0, "DUPLICATED")]
    )
    assert (
        outlines(with_b1("DUPLICATED")) == outlines(with_b1("EXACTLY_ONCE")) == outlines(green) + 1
    )


@pytest.mark.parametrize("outcome", Outcome)
def test_cells_have_the_colour_of_the_observed_outcome(outcome):
    hatched = outcome is Outcome.VOID
    fill = "fill: url(#" if hatched else f"fill: {PALETTE[outcome].fill}"
    other = "LOST" if outcome is Outcome.DUPLICATED else "DUPLICATED"
    drawings = [plots.svg(with_b1(seen)).decode().count(fill) for seen in (outcome.value, other)]
    assert drawings[0] == drawings[1] + 1


def test_times_are_drawn_where_there_are_any(readable):
    title = "time to recover (dot: hot, diamond: cold, bar: median of hot)"
    assert title in words(document())
    assert title not in words(with_b1("VOID"))


def test_every_recovery_that_counts_is_drawn():
    trials = [trial("r_dup", "b1", n, "DUPLICATED", recover_us=9000 + n) for n in range(7)]
    trials.append(trial("r_dup", "b1", 7, "VOID"))
    drawn = plots.svg(document(["r_dup"], barriers=["b1"], trials=trials, k=8)).decode()
    hot = re.search(r'<g id="PathCollection_1">.*?</g>\s*</g>', drawn, re.DOTALL)
    assert hot is not None
    assert hot[0].count("<use ") == 7


def test_names_are_shown_as_they_are_and_fit(readable):
    name = "r_$x^2$_<b>&_" + "long" * 8
    made = document(["r_dup"], rename={"r_dup": name}, trials=[], name="$\\frac$ & <i>")
    assert name in words(made)
    assert "$\\frac$ & <i>: what kill did to each row" in words(made)


def test_an_interrupted_run_without_trials_can_be_drawn(readable):
    assert words(document(["r_dup"], trials=[], complete=False)).count("not run") == 3


def test_drawing_libraries_are_imported_only_to_draw():
    program = (
        "import sys, crashpoint.report.publish, crashpoint.report.text, crashpoint.report.markdown;"
        "sys.exit('matplotlib' in sys.modules or 'jinja2' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
