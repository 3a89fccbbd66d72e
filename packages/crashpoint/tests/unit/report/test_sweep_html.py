import pytest

from crashpoint.report import sweep_html
from unit.report.test_html import Page
from unit.sweep.reports import document


@pytest.fixture(scope="module")
def page():
    return Page(sweep_html.page(document()))


def test_nothing_is_fetched_and_only_the_pages_own_script_runs(page):
    assert not page.all("link")
    assert not page.all("img")
    assert all("src" not in script for script in page.all("script"))
    (policy,) = [m["content"] for m in page.all("meta") if m.get("http-equiv")]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy


def test_each_point_has_its_row_and_its_place_in_the_line(page):
    made = document()
    rows = [tr["id"] for tr in page.all("tr") if "id" in tr]
    assert rows == [f"p{first['n']}" for first in made["firsts"]]
    links = [a["href"] for a in page.all("a") if a.get("href", "").startswith("#p")]
    assert links.count("#p1") == 1
    assert len([href for href in links if href[2:].isdigit()]) == len(rows)


def test_each_second_crash_is_a_square_with_its_letter(page):
    made = document()
    squares = [td for td in page.all("td") if "square" in td.get("class", "")]
    assert len(squares) == sum(len(first["again"]) for first in made["firsts"])
    assert squares[0]["data-path"] == "1.1"
    classes = [td["class"].split()[1] for td in squares]
    codes = "".join(first["again"] for first in made["firsts"])
    assert classes == [{"D": "DUPLICATED", ".": "EXACTLY_ONCE"}[code] for code in codes]


def test_the_grid_stands_there_as_text_as_well(page):
    text = "".join(page.texts["pre"])
    for first in document()["firsts"]:
        if first["again"]:
            assert f"{first['n']}  {first['again']}" in text


def test_stories_are_readable_without_the_script(page):
    assert len(page.all("details")) == len(document()["stories"]) + 1
    assert "a receiver has accepted a request" in page.visible
    assert "it was sent again without a key" in page.visible


def test_a_grid_of_very_many_squares_is_told_as_text_only():
    made = document()
    made["firsts"][0]["again"] = "." * 20_001
    made["firsts"][0]["names"] = ["a"] * 20_001
    page = Page(sweep_html.page(made))
    assert not [td for td in page.all("td") if "square" in td.get("class", "")]
    assert "." * 20_001 in "".join(page.texts["pre"])


def test_what_the_program_says_is_text(page):
    made = document()
    made["job"] = "<script>alert(1)</script>"
    made["stories"][0]["said"] = made["failures"][0]["said"] = "</script><img src=x>"
    made["firsts"][0]["name"] = made["points"][0] = "<b>"
    evil = Page(sweep_html.page(made))
    assert len(evil.all("script")) == len(page.all("script"))
    assert not evil.all("img")
    assert "<script>alert(1)</script>" in evil.visible


def test_a_page_of_a_good_sweep_says_so():
    page = Page(sweep_html.page(document("careful")))
    assert "all exactly once" in page.visible
    assert any("good" in p.get("class", "") for p in page.all("p"))


def test_a_thousand_scenarios_stay_light():
    made = document()
    names = ["tmp:state.json"] * 1000
    made["firsts"][0]["again"], made["firsts"][0]["names"] = "D" * 1000, names
    assert len(sweep_html.page(made)) < 500_000
