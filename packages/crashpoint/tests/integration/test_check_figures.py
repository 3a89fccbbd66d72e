"""scripts/check_figures.py on documents beside real evidence: what it lets pass, what it names."""

import importlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from crashpoint.canonical import digest
from crashpoint.harness.bench import Figure, write

SCRIPT = Path(__file__).parents[4] / "scripts" / "check_figures.py"
MATRIX = "evidence/small.json"
BENCH = "evidence/bench_small.json"
RENDERERS = ["matrix", "sentence", "terminal", "picture"]


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A folder with a real run of two controls, and a benchmark's figures."""
    root = tmp_path_factory.mktemp("measured")
    command = [sys.executable, "-m", "crashpoint.harness.matrix", "--k", "2"]
    command += ["--runtimes", "r_dup,r_idem", "--name", "small"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    figure = Figure("syncs", 812.4, "/s", ">= 400", "795 by hand", holds=True)
    write(root / BENCH, "python benchmarks/small.py", [figure], {})
    return root


class Documents:
    """README.md and RESULTS.md beside evidence; only README.md is written by tests."""

    def __init__(self, root: Path, run) -> None:
        self.root = root
        self._run = run
        (root / "RESULTS.md").write_text("# Results\n")

    @property
    def readme(self) -> str:
        return (self.root / "README.md").read_text()

    def check(self, *arguments: str) -> tuple[int, list[str]]:
        """The script's exit code and the lines it printed."""
        return self._run(["--root", str(self.root), *arguments])

    def write(self, text: str, *arguments: str) -> tuple[int, list[str]]:
        (self.root / "README.md").write_text(text)
        return self.check(*arguments)

    def accepts(self, text: str) -> None:
        assert self.write(text) == (0, [])

    def refuses(self, text: str, *lines: str) -> None:
        """The script exits 1 and its lines begin as these do, one by one."""
        code, printed = self.write(text)
        assert code == 1
        assert len(printed) == len(lines), printed
        for said, start in zip(printed, lines, strict=True):
            assert said.startswith(start), said


@pytest.fixture
def run(monkeypatch, capsys):
    """The script's main function, which is quicker than a process for each of a hundred tests."""
    monkeypatch.syspath_prepend(SCRIPT.parent)
    script = importlib.import_module(SCRIPT.stem)

    def running(arguments: list[str]) -> tuple[int, list[str]]:
        code = script.main(arguments)
        printed = capsys.readouterr()
        assert printed.err == ""
        return code, printed.out.splitlines()

    return running


@pytest.fixture
def documents(measured, tmp_path, run):
    shutil.copytree(measured, tmp_path / "root")
    return Documents(tmp_path / "root", run)


def block(renderer: str, path: str = MATRIX, content: str = "") -> str:
    return f"<!-- figures: {renderer} {path} -->\n{content}<!-- /figures -->\n"


def written(documents: Documents, renderer: str, path: str = MATRIX) -> str:
    """A document with one generated block."""
    code, printed = documents.write(f"# Title\n\n{block(renderer, path)}\nText.\n", "--write")
    assert (code, printed) == (0, [])
    return documents.readme


@pytest.mark.parametrize("renderer", RENDERERS)
def test_a_generated_block_is_accepted_and_names_its_file_and_command(documents, renderer):
    text = written(documents, renderer)
    documents.accepts(text)
    assert f"[{MATRIX}]({MATRIX}), made by `python -m crashpoint.harness.matrix --k 2" in text
    assert text.startswith("# Title\n\n<!-- figures: ")
    assert text.endswith("<!-- /figures -->\n\nText.\n")


def test_writing_twice_changes_nothing(documents):
    text = written(documents, "matrix")
    before = (documents.root / "README.md").stat().st_mtime_ns
    assert documents.check("--write") == (0, [])
    assert documents.readme == text
    assert (documents.root / "README.md").stat().st_mtime_ns == before


def test_a_benchmark_has_a_block_too(documents):
    text = written(documents, "bench", BENCH)
    assert "| syncs | 812 /s | \\>= 400 | 795 by hand |" in text
    documents.accepts(text)


def test_the_five_designs_have_a_block_too(documents):
    command = [sys.executable, "-m", "crashpoint.sweep.designs", "--dedupe", "--name", "designs"]
    done = subprocess.run(command, cwd=documents.root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    text = written(documents, "designs", "evidence/designs.json")
    assert "all 35 cells as published." in text
    documents.accepts(text)
    path = documents.root / "evidence/designs.json"
    path.write_text(path.read_text().replace('"dups": 294', '"dups": 293'))
    documents.refuses(text, "README.md:3: evidence/designs.json: ")


@pytest.mark.parametrize("renderer", RENDERERS)
def test_a_digit_changed_in_a_block_is_refused(documents, renderer):
    text = written(documents, renderer)
    changed = text.replace("12 trials", "13 trials").replace("2/2", "3/3", 1)
    assert changed != text
    documents.refuses(changed, f"README.md:3: the block differs from what {renderer} makes of")


def test_a_line_removed_from_a_block_is_named(documents):
    lines = written(documents, "matrix").splitlines(keepends=True)
    del lines[5]
    code, printed = documents.write("".join(lines))
    assert code == 1
    assert 'line 3 is "| `r_idem` |' in printed[0]
    assert 'should be "| `r_dup` |' in printed[0]
    assert printed[0].endswith("run `python scripts/check_figures.py --write`")


def test_writing_repairs_a_block(documents):
    text = written(documents, "sentence")
    assert documents.write(text.replace("12 trials", "1,800 trials"), "--write") == (0, [])
    assert documents.readme == text


def test_evidence_with_a_digit_changed_is_refused_and_its_block_left_alone(documents):
    text = written(documents, "sentence")
    path = documents.root / MATRIX
    path.write_text(path.read_text().replace('"differing": 0', '"differing": 1', 1))
    documents.refuses(text, f"README.md:3: {MATRIX}: the receipt is not the content's")
    assert documents.check("--write")[0] == 1
    assert documents.readme == text


def test_evidence_whose_receipt_was_made_anew_is_refused(documents):
    text = written(documents, "sentence")
    path = documents.root / MATRIX
    made = json.loads(path.read_text().replace('"differing": 0', '"differing": 1', 1))
    del made["receipt"]
    made["receipt"] = f"sha256:{digest(made)}"
    path.write_text(json.dumps(made))
    documents.refuses(text, f"README.md:3: {MATRIX}: ")


def test_a_benchmark_with_a_digit_changed_is_refused(documents):
    text = written(documents, "bench", BENCH)
    path = documents.root / BENCH
    path.write_text(path.read_text().replace("812.4", "912.4"))
    documents.refuses(text, f"README.md:3: {BENCH}: the receipt is not the content's")


def test_a_picture_of_another_run_is_refused(documents):
    text = written(documents, "picture")
    picture = documents.root / "evidence/small.png"
    picture.write_bytes(picture.read_bytes().replace(b"sha256:", b"sha255:"))
    documents.refuses(text, "README.md:3: evidence/small.png was drawn from another")
    picture.unlink()
    documents.refuses(text, "README.md:3: evidence/small.png is missing")
    picture.write_bytes(b"not a picture")
    documents.refuses(text, "README.md:3: evidence/small.png was drawn from another")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "cannot be read: No such file"),
        ("{", "not JSON"),
        ("[]", "names no command that made it"),
        ('{"format": "crashpoint.matrix/1"}', "names no command that made it"),
        ('{"format": "crashpoint.matrix/1", "command": "x"}', "not in the form"),
        ('{"format": "other/1", "command": "x"}', "is 'other/1'"),
        ('{"format": "crashpoint.bench/1", "command": "x"}', "not in the form"),
    ],
)
def test_evidence_that_is_none_is_refused(documents, content, says):
    if content is not None:
        (documents.root / "evidence/odd.json").write_text(content)
    code, printed = documents.write(block("matrix", "evidence/odd.json"))
    assert (code, len(printed)) == (1, 1)
    assert printed[0].startswith("README.md:1: ")
    assert says in printed[0]


@pytest.mark.parametrize(
    "path",
    [
        "../evidence/small.json",
        "evidence/../x.json",
        "/etc/passwd",
        "small.json",
        "evidence/a/b.json",
    ],
)
def test_evidence_lies_in_its_folder(documents, path):
    documents.refuses(block("matrix", path), f"README.md:1: {path} is no evidence file")


def test_an_unknown_renderer_is_refused(documents):
    documents.refuses(block("tabel"), "README.md:1: no renderer 'tabel'; there are matrix,")


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (f"<!-- figures: matrix {MATRIX} -->\n", ["README.md:1: the block has no end"]),
        ("<!-- /figures -->\n", ["README.md:1: <!-- /figures --> is no mark of a block"]),
        ("<!-- figure: matrix x -->\n", ["README.md:1: <!-- figure: matrix x --> is no mark"]),
        (f"<!-- figures: {MATRIX} -->\n", ["README.md:1: "]),
        ("<!--figures: matrix x -->\n<!-- / figures -->\n", ["README.md:1: ", "README.md:2: "]),
    ],
)
def test_marks_that_are_not_in_order_are_refused_and_nothing_is_written(documents, text, lines):
    documents.refuses(text, *lines)
    documents.check("--write")
    assert documents.readme == text


def test_a_block_inside_a_block_is_refused(documents):
    inner = f"<!-- figures: sentence {MATRIX} -->\n"
    code, printed = documents.write(block("sentence", content=inner))
    assert code == 1
    assert printed[0].startswith("README.md:1: the block differs")
    assert printed[1] == f"README.md:2: a block begins inside the one of {MATRIX}"


def test_a_mark_in_a_code_fence_is_an_example(documents):
    documents.accepts(f"```html\n{block('matrix', 'evidence/NAME.json')}```\n")


def test_both_documents_are_checked_and_must_be_there(documents):
    (documents.root / "RESULTS.md").write_text("one\n\nIt took 12 ms.\n")
    documents.refuses("x\n", 'RESULTS.md:3: "12 ms" is a figure outside a block')
    (documents.root / "RESULTS.md").unlink()
    documents.refuses("x\n", "RESULTS.md: cannot be read")


FIGURES = [
    *(
        "12 ms",
        "12ms",
        "3.4 s",
        "~0.5 us",
        "10-20 ms",
        "10 seconds",
        "4 minutes",
        "**12** ms",
        "_12 ms_",
    ),
    *("37/37", "37/37.", "90 / 90", "38/910/892", "90 of 90", "90 out of the 90"),
    *("45%", "about 45 %", "45 percent", "2x", "2x faster", "2 x faster", "3 times", "4-fold"),
    *(
        "1,800 trials",
        "600 sealed trials",
        "1,800 crash+recover trials",
        "0 disagreements",
        "0 VOID",
    ),
    *(
        "1,800",
        "5k trials",
        "24 mutants",
        "3 cells",
        "zero disagreements",
        "two VOID",
        "five seconds",
    ),
    *(
        "0.933",
        "rate .933",
        "0.5.",
        "8,000/s",
        "8k/s",
        "35 per second",
        "35 trials/s",
        "35 a second",
    ),
    *("k=50", "k = 50", "n=3", "p95 212", "p95: 212", "p99 is 3", "5 MB", "300 KiB", "2 GHz"),
    *("twice as fast", "half as much", "12&nbsp;ms", "12\u00a0ms", "12 \u00b5s"),
    *(
        "[12 ms](x)",
        "![12 ms](x.png)",
        "[a](x '12 ms')",
        "> 12 ms",
        "* 12 ms",
        "# In 12 ms",
        "<b>12</b> ms",
    ),
    *("`37/37`", "`1,800 trials`", "`600/s`", "see `2x`"),
]


@pytest.mark.parametrize("figure", FIGURES)
def test_a_figure_outside_a_block_is_refused_with_its_line(documents, figure):
    code, printed = documents.write(
        f"# Title\n\nText {figure} text\n" if figure[0] not in ">*#" else f"a\n\n{figure}\n"
    )
    assert code == 1
    assert len(printed) == 1
    assert printed[0].startswith('README.md:3: "')
    assert printed[0].endswith('" is a figure outside a block; generate it from evidence')


def test_a_figure_broken_over_two_lines_is_one(documents):
    documents.refuses("All 1,800\n> trials agree.\n", 'README.md:1: "1,800 > trials" is')


def test_numbers_in_tables_are_figures(documents):
    documents.refuses(
        "| a | b |\n|---|---|\n| x | 12 |\n| y | < 7 |\n",
        'README.md:3: "12" is',
        'README.md:4: "< 7" is',
    )


def test_output_is_no_command(documents):
    documents.refuses("```\n600 trials\n```\n", 'README.md:2: "600 trials" is')
    documents.refuses("```text\n12 ms\n```\n", 'README.md:2: "12 ms" is')
    documents.refuses("```console\n$ make demo\ntook 12 ms\n```\n", 'README.md:3: "12 ms" is')
    documents.refuses("```sh\nmake demo  # 12 ms\n```\n", 'README.md:2: "12 ms" is')
    documents.refuses("```sh\n600 trials, 37/37\n```\n", *['README.md:2: "'] * 2)
    documents.refuses("    12 ms\n", 'README.md:1: "12 ms" is')


@pytest.mark.parametrize(
    "text",
    [
        "Python 3.11 or newer, Python >= 3.12, Apache-2.0, pre-1.0, langgraph 1.2.24",
        "issue #8039, langchain-ai/langgraph#8039, 2026-11-29, SHA-256, UTF-8",
        "26 rows at three barriers; b0/b1/b2; r_lg_2; five engines; 26 rows x 3 barriers",
        "exit `0`, `1` or `130`; `--k 50`; `--void-max 0.1`; `k=50`; `sleep 0.5`",
        "| `0` | agrees |\n|---|---|\n| `1` | does not |",
        "[a](12ms.json), [b](x(1)-12ms.png), https://example.org/?t=12ms",
        "[name]: 12ms.html",
        "<!-- it took 12 ms -->",
        '<img src="x.png" width="45%">',
        "## 2. Title\n\n### 2.1 Title\n\n1. one\n2. two",
        "a 95% interval, the 95% Wilson interval, 95% confidence intervals",
        "```sh\npython -m crashpoint.harness.matrix --k 100 --timeout 60 --void-max 0.1\n```",
        "```console\n$ sleep 0.5\n```",
        "```python\nretry(times=3, delay=0.5)\n```",
        "in one trial; k trials; a p95 needs many; half of it; twice",
    ],
)
def test_what_is_no_figure_is_accepted(documents, text):
    documents.accepts(f"{text}\n")


@pytest.mark.parametrize(
    ("argument", "code"), [("--nonsense", 2), ("--root=.", 1), ("--root=root", 0)]
)
def test_the_script_runs_by_itself(documents, argument, code):
    written(documents, "sentence")
    command = [sys.executable, str(SCRIPT), argument]
    done = subprocess.run(command, cwd=documents.root.parent, capture_output=True, check=False)
    assert done.returncode == code
