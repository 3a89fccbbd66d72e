import pytest

from crashpoint.report import text
from crashpoint.report.markdown import CannotRender, render
from unit.report.documents import document, trial

PATH = "evidence/sample.json"
COMMAND = "`python -m crashpoint.harness.matrix --k 2 --runtimes r_dup --name sample`"
SOURCE = f"[{PATH}]({PATH}), made by {COMMAND}"

BENCH = {
    "format": "crashpoint.bench/1",
    "name": "bench_ledger",
    "command": "python benchmarks/ledger.py",
    "machine": {"cpu": "Some CPU", "cores": 2},
    "figures": [
        {
            "what": "attempts, one trial",
            "reached": 5321.4,
            "unit": "/s",
            "wanted": ">= 0.5 x",
            "reference": 8000,
        },
        {"what": "import", "reached": 6.27, "unit": "ms", "wanted": 10, "reference": None},
    ],
}


def test_matrix():
    assert (
        render("matrix", document(["r_dup"]), PATH)
        == f"""\
| row | b0 | b1 | b2 |
| --- | --- | --- | --- |
| `r_dup` | EXACTLY_ONCE 2/2 [34.2-100.0%] | DUPLICATED 2/2 [34.2-100.0%] \
| EXACTLY_ONCE 2/2 [34.2-100.0%] |

| time to recover | b0 | b1 | b2 |
| --- | --- | --- | --- |
| `r_dup` hot | 40.0 ms, n 1 | 40.0 ms, n 1 | 40.0 ms, n 1 |
| `r_dup` cold | 40.0 ms, n 1 | 40.0 ms, n 1 | 40.0 ms, n 1 |

{SOURCE}: fault kill; k = 2; 6 trials, 0 disagreements with the model, 0 VOID; \
engine controls: engine 1.2.3, cpython 3.11.7."""
    )


def test_a_matrix_marks_what_was_not_predicted_and_what_lowers_its_worth():
    trials = [trial("r_dup", "b1", n, "LOST") for n in range(2)]
    made = document(["r_dup"], barriers=["b1"], trials=trials, complete=False)
    rendered = render("matrix", made, PATH)
    assert "| LOST 0/2 [0.0-65.8%] **predicted DUPLICATED** |" in rendered
    assert rendered.endswith("; the run was interrupted.")


def test_sentence():
    assert render("sentence", document(), PATH) == (
        f"12 trials, 0 disagreements with the model, 0 VOID ({SOURCE})."
    )


def test_a_sentence_tells_what_lowers_the_worth_of_the_run():
    made = document(source={"digest": "", "commit": None, "clean": False})
    assert "0 VOID; made from a source tree with uncommitted changes (" in render(
        "sentence", made, PATH
    )


def test_terminal_is_what_the_terminal_shows():
    made = document()
    assert render("terminal", made, PATH) == f"```text\n{text.matrix(made)}\n```\n\n{SOURCE}."


def test_a_fence_is_longer_than_any_in_the_text():
    made = document(command="echo '````'")
    assert render("terminal", made, PATH).startswith("`````text\n")


def test_picture():
    assert render("picture", document(), PATH) == (
        "![sample: kill, 12 trials, 0 disagreements with the model, 0 VOID, every cell agrees with"
        f" its prediction](evidence/sample.png)\n\n{SOURCE}."
    )


def test_bench():
    assert (
        render("bench", BENCH, "evidence/bench_ledger.json")
        == """\
| what | reached | wanted | beside |
| --- | --- | --- | --- |
| attempts, one trial | 5,321 /s | \\>= 0.5 x | 8,000 /s |
| import | 6.27 ms | 10 ms |  |

[evidence/bench_ledger.json](evidence/bench_ledger.json), made by \
`python benchmarks/ledger.py`: cpu Some CPU, cores 2."""
    )


def test_names_that_mean_something_to_markdown_are_shown_as_they_are():
    name = "r|`x`<b>"
    made = document(["r_dup"], rename={"r_dup": name}, name="*a*_[b]_", command="a `b`")
    assert "| `` r\\|`x`<b> `` |" in render("matrix", made, PATH)
    assert "made by `` a `b` ``" in render("matrix", made, PATH)
    assert render("picture", made, PATH).startswith("![\\*a\\*\\_\\[b\\]\\_: kill")


@pytest.mark.parametrize(
    ("name", "made", "says"),
    [
        ("table", document(), "no renderer 'table'; there are matrix, sentence, terminal"),
        ("bench", document(), "bench renders crashpoint.bench/1, but evidence/sample.json is"),
        ("matrix", BENCH, "matrix renders crashpoint.matrix/1, but evidence/sample.json is"),
        ("matrix", {}, "is None"),
        ("matrix", {"format": "crashpoint.matrix/1"}, "malformed (KeyError: 'summary')"),
        ("bench", BENCH | {"figures": 3}, "malformed (TypeError"),
    ],
)
def test_what_cannot_be_rendered_is_refused_with_the_reason(name, made, says):
    with pytest.raises(CannotRender) as refused:
        render(name, made, PATH)
    assert says in str(refused.value)
