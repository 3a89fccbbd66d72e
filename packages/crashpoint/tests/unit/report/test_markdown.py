import pytest

from crashpoint.report import text
from crashpoint.report.markdown import CannotRender, render
from crashpoint.sweep.published import PUBLISHED, SINGLE, differences
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


def test_a_figure_that_was_not_reached_says_so():
    figures = [figure | {"holds": n == 0} for n, figure in enumerate(BENCH["figures"])]
    rendered = render("bench", BENCH | {"figures": figures}, "evidence/bench_ledger.json")
    assert "| attempts, one trial | 5,321 /s | " in rendered
    assert "| import | 6.27 ms **not reached** | 10 ms |" in rendered


def designs(*runs, **members):
    """A document in which each run has the published table, changed so in its first row."""
    made = []
    for mode, change in runs:
        rows = [
            dict(
                zip(
                    ("once", "twice", "with_dups", "dups", "missing", "asks", "calls"),
                    cells,
                    strict=True,
                )
            )
            | {"variant": name, "single_dups": SINGLE.get(name, 0), "void": 0}
            for name, cells in PUBLISHED.items()
        ]
        rows[0] |= change
        scenarios = sum(row["once"] + row["twice"] for row in rows)
        made.append(
            {"mode": mode, "rows": rows, "scenarios": scenarios, "differences": differences(rows)}
        )
    return {
        "format": "crashpoint.designs/1",
        "command": "python -m crashpoint.sweep.designs",
        "flips": [],
        "dedupe": False,
        "runs": made,
    } | members


def test_designs():
    made = designs(("raise", {}), ("files", {}), ("fork", {}))
    assert (
        render("designs", made, PATH)
        == f"""\
By raise, files, fork:

|  | once | twice | with dups | dups | missing | asks | calls+ |
| --- | --- | --- | --- | --- | --- | --- | --- |
| save once per turn | 18 | 225 | 164 | 294 | 0 | 0 | 338 |
| save after the reply | 34 | 654 | 306 | 360 | 0 | 0 | 234 |
| + idempotency keys | 34 | 654 | 0 | 0 | 0 | 0 | 234 |
| + attempt markers, no keys | 43 | 996 | 0 | 0 | 0 | 669 | 288 |
| keys and markers | 43 | 1,014 | 0 | 0 | 0 | 0 | 288 |

save once per turn: duplicates at 8 of 18 crash points; \
save after the reply: duplicates at 9 of 34 crash points; \
+ attempt markers, no keys: 669 questions in 1,039 scenarios; \
3,715 scenarios; all 35 cells as published.

[{PATH}]({PATH}), made by `python -m crashpoint.sweep.designs`."""
    )


def test_designs_that_came_out_otherwise_say_so_and_stand_apart():
    made = designs(("raise", {}), ("fork", {"dups": 293, "void": 2}), dedupe=True)
    first, second = render("designs", made, PATH).split("\n\nBy ")
    assert first.startswith("By raise:\n\n| ")
    assert second.startswith("fork:\n\n| ")
    assert first.endswith("all 35 cells as published.")
    assert "3,715 scenarios, 2 of them VOID; " in second
    assert "**not as published: save once per turn: dups is 293, published 294**" in second
    assert second.endswith("designs`, equal worlds recovered once.")


def test_designs_with_a_detail_flipped_are_compared_with_nothing():
    made = designs(("raise", {"dups": 293}), flips=["marks-again"])
    rendered = render("designs", made, PATH)
    assert "published" not in rendered
    assert rendered.endswith("designs`, with marks-again.")


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
        ("designs", {"format": "crashpoint.designs/1"}, "malformed (KeyError: 'runs')"),
        ("programs", designs(), "programs renders crashpoint.programs/1, but evidence/sample"),
    ],
)
def test_what_cannot_be_rendered_is_refused_with_the_reason(name, made, says):
    with pytest.raises(CannotRender) as refused:
        render(name, made, PATH)
    assert says in str(refused.value)
