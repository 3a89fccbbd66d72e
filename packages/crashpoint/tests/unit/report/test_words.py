import pytest

from crashpoint.report.words import duration, folded, plain, plural


@pytest.mark.parametrize(
    ("us", "shown"),
    [
        (0, "0.00 us"),
        (940, "940 us"),
        (999, "999 us"),
        (1000, "1.00 ms"),
        (8314, "8.31 ms"),
        (9_996, "10.0 ms"),
        (141_000, "141 ms"),
        (999_499, "999 ms"),
        (999_500, "1.00 s"),
        (2_044_656, "2.04 s"),
        (125_000_000, "125 s"),
    ],
)
def test_durations_have_three_digits_and_a_unit(us, shown):
    assert duration(us) == shown


def test_nouns_follow_their_number():
    assert [plural(n, "trial") for n in (0, 1, 1800)] == ["0 trials", "1 trial", "1,800 trials"]
    assert plural(2, "process", "processes") == "2 processes"


def test_control_characters_are_shown_and_not_obeyed():
    assert plain("a\x1b[2J\n\u202eb\u00e9") == "a\\x1b[2J\\n\\u202eb\u00e9"


def test_lines_break_at_spaces_and_after_commas():
    assert folded("one two,three,four", 10, first="- ", rest="  ") == [
        "- one two,",
        "  three,",
        "  four",
    ]
