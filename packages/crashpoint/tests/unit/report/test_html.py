import base64
import hashlib
import json
from html.parser import HTMLParser

import pytest

from crashpoint.report import html
from unit.report.documents import document, trial

UNPAIRED = {"meta"}
"""Elements of ours that HTML closes by itself; those of SVG say so themselves."""


class Page(HTMLParser):
    """A page taken apart: elements with their attributes, and the text of each kind of element."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: dict[str, list[str]] = {}
        self.unclosed: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in UNPAIRED:
            self.unclosed.append(tag)
            self.texts.setdefault(tag, []).append("")
            if tag in {"td", "th"}:
                self.handle_data(" ")

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag):
        assert self.unclosed.pop() == tag

    def handle_data(self, data):
        hidden = {"script", "style"} & set(self.unclosed)
        for tag in hidden or set(self.unclosed):
            self.texts[tag][-1] += data

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def visible(self) -> str:
        return " ".join("".join(self.texts["body"]).split())

    @property
    def data(self):
        (text,) = (
            text
            for text, attributes in zip(self.texts["script"], self.all("script"), strict=True)
            if attributes.get("type") == "application/json"
        )
        return json.loads(text)


def test_every_element_is_closed():
    assert Page(html.page(document())).unclosed == []


def test_nothing_is_requested_from_anywhere():
    text = html.page(document())
    page = Page(text)
    for tag, attributes in page.elements:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base", "form"}
        assert "src" not in attributes
        assert "style" not in attributes, "the policy forbids inline styles"
        assert not any(name.startswith("on") for name in attributes)
        assert attributes.get("href", "#").startswith("#")
    assert "url(" not in text
    assert "@import" not in text


def test_the_policy_lets_only_the_pages_own_script_and_style_run():
    page = Page(html.page(document()))
    (policy,) = (m["content"] for m in page.all("meta") if "http-equiv" in m)

    def named(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    style = named(page.texts["style"][0])
    script = named(page.texts["script"][-1])
    assert policy == (
        f"default-src 'none'; style-src {style}; script-src {script};"
        " base-uri 'none'; form-action 'none'"
    )


@pytest.mark.parametrize("nasty", ["</script><script>alert(1)</script>", "<b onclick=x>'\"&amp;"])
def test_everything_foreign_is_text(nasty):
    row = f"r_{nasty}"
    trials = [trial(row, "b1", 0, "VOID", void=nasty, actions=[(nasty, {nasty: nasty})])]
    made = document(
        *(["r_dup"],),
        barriers=["b1"],
        trials=trials,
        k=1,
        rename={"r_dup": row},
        name=nasty,
        command=nasty,
        started=nasty,
        machine={"cpu": nasty, "cores": 1, "kernel": nasty, "system": nasty, "python": nasty},
    )
    made["engines"] = {nasty: made["engines"]["controls"]}
    made["engines"][nasty]["subject"] |= {"versions": {nasty: nasty}, "unlocked": [nasty]}
    source = {"digest": nasty, "commit": None, "clean": False}
    made["engines"][nasty]["subject"]["sources"] = {nasty: source}
    made["engines"][nasty]["waits_s"] = {nasty: 1.0}
    made["rows"][0]["engine"] = nasty
    page, plain = Page(html.page(made)), Page(html.page(document(["r_dup"], barriers=["b1"])))
    assert page.unclosed == []
    assert len(page.all("script")) == 2
    assert "<" not in page.texts["script"][0], "the data ends no element for any browser"
    assert {tag for tag, _ in page.elements} <= {tag for tag, _ in plain.elements} | {"li"}
    assert nasty in page.visible
    told = " ".join(page.data["words"])
    assert nasty in told
    assert page.data["groups"][0]["title"] == f"{row} at b1"


def test_the_summary_needs_no_script():
    trials = [
        trial("r_dup", "b1", n, outcome) for n, outcome in enumerate(["LOST", "LOST", "DUPLICATED"])
    ]
    shown = Page(html.page(document(["r_dup"], barriers=["b1"], trials=trials, k=3))).visible
    for text in (
        "sample: what kill did to 1 row",
        "3 trials, 2 disagreements with the model, 0 VOID: a cell disagrees with its prediction.",
        "python -m crashpoint.harness.matrix --k 2 --runtimes r_dup --name sample",
        "LOST 1 of 3, 6.2-79.2%",
        "\N{MULTIPLICATION SIGN} predicted DUPLICATED",
        "r_dup at b1: predicted DUPLICATED, observed DUPLICATED 1, LOST 2",
        "alive: r_dup at b1 should be DUPLICATED and was DUPLICATED 1, LOST 2",
        "r_dup controls journaled after-effect naive reproducible",
        "engine 1.2.3, cpython 3.11.7",
        "sha256:" + "9" * 64,
        "c" * 40 + " (clean)",
    ):
        assert text in shown


def test_a_run_that_agrees_says_that_there_are_no_findings():
    assert "No cell differs from its prediction" in Page(html.page(document())).visible


def test_every_cell_leads_to_its_trials_and_each_trial_to_its_story():
    made = document(["r_dup", "r_lost"])
    page = Page(html.page(made))
    groups = page.data["groups"]
    linked = [int(a["data-group"]) for _, a in page.elements if "data-group" in a]
    assert sorted(linked) == list(range(len(groups)))
    word = page.data["words"].__getitem__
    named = {group["id"]: group for group in groups}
    assert list(named) == [
        *(f"{row}.{barrier}" for row in ("r_dup", "r_lost") for barrier in ("b0", "b1", "b2")),
        "references",
    ]
    assert [run["name"] for run in named["r_lost.b1"]["trials"]] == [
        "r_lost.b1.0000",
        "r_lost.b1.0001",
    ]
    run = named["r_dup.b1"]["trials"][1]
    shown = dict(zip(page.data["columns"], map(word, run["shown"]), strict=True))
    assert shown == {
        "outcome": "DUPLICATED",
        "ending": "ENDED",
        "result": "SAME",
        "recovery": "hot",
        "time to recover": "40.0 ms",
        "why VOID": "",
    }
    story = list(map(word, run["story"]))
    assert story[::2][:4] == ["start", "attempt", "fault", "ledger"]
    assert story[1] == "The first process passed b0, announced b1 and waited there."


def test_controls_run_apart_can_be_looked_at():
    made = document(
        ["r_idem"], control_trials=[trial("r_dup", "b1", n, "DUPLICATED") for n in range(2)]
    )
    page = Page(html.page(made))
    assert "2 trials of a control" in page.visible
    assert [len(g["trials"]) for g in page.data["groups"] if g["id"] == "control_trials"] == [2]


def test_tables_and_headings_are_real():
    page = Page(html.page(document()))
    levels = [int(tag[1]) for tag, _ in page.elements if tag in {"h1", "h2", "h3", "h4"}]
    assert levels[0] == 1
    assert set(levels[1:]) == {2}
    assert all(attributes.get("scope") for attributes in page.all("th"))
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in page.elements:
        assert attributes.get("aria-labelledby", ids[0]) in ids
        assert attributes.get("href", "#" + ids[0])[1:] in ids
    assert page.all("html") == [{"lang": "en"}]


def test_times_are_shown_where_there_are_any():
    assert "Time to recover" in Page(html.page(document())).texts["h2"]
    void = document(["r_dup"], barriers=["b1"], trials=[trial("r_dup", "b1", 0, "VOID")], k=1)
    assert "Time to recover" not in Page(html.page(void)).texts["h2"]


def test_drawings_stay_inside_their_boxes():
    trials = [
        trial("r_dup", "b1", n, "DUPLICATED", recover_us=us, mode=mode)
        for n, (us, mode) in enumerate([(1, "hot"), (10**6, "hot"), (10**7 + 1, "cold")])
    ]
    page = Page(html.page(document(["r_dup"], barriers=["b1"], trials=trials, k=3)))
    for circle in page.all("circle"):
        assert 0 <= float(circle["cx"]) <= html.TIMES_WIDTH


def test_a_page_of_1800_trials_stays_below_two_megabytes():
    rows = ["r_null", "r_dup", "r_lost", "r_idem", "r_diverge", "r_twophase"]
    assert len(html.page(document(rows, k=100)).encode()) < 2_000_000
