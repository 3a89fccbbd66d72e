import pytest

from unit.mutate import load, mutants

CASES = {
    "x = Outcome.LOST": [
        "x = Outcome.EXACTLY_ONCE",
        "x = Outcome.DUPLICATED",
        "x = Outcome.DIVERGED",
        "x = Outcome.VOID",
    ],
    "x = Other.LOST": [],
    "x = a == b": ["x = a != b"],
    "x = a != b": ["x = a == b"],
    "x = a is b": ["x = a is not b"],
    "x = a is not b": ["x = a is b"],
    "x = a in b": ["x = a not in b"],
    "x = a < b <= c": ["x = a >= b <= c", "x = a < b > c"],
    "x = a and b": ["x = a or b"],
    "x = a or b": ["x = a and b"],
    "x = not a": ["x = not not a"],
    "x = True": ["x = False"],
    "x = False": ["x = True"],
    "x = 1": [],
    "x = None": [],
    "if a:\n    b": ["if False:\n    b"],
    "if a:\n    b\nelse:\n    c": [
        "if False:\n    b\nelse:\n    c",
        "if True:\n    b\nelse:\n    c",
    ],
    "x = b if a else c": ["x = b if False else c", "x = b if True else c"],
    "match a:\n    case 1:\n        b": ["match a:\n    case 1 if False:\n        b"],
    "@decorated(frozen=True)\nclass A:\n    x = True": [
        "@decorated(frozen=True)\nclass A:\n    x = False"
    ],
}


@pytest.mark.parametrize("source", CASES)
def test_exactly_these_changes(source):
    assert [mutated for _, mutated in mutants(source)] == CASES[source]


def test_one_change_at_a_time():
    assert [mutated for _, mutated in mutants("x = a == b\ny = a == b")] == [
        "x = a != b\ny = a == b",
        "x = a == b\ny = a != b",
    ]


def test_the_description_says_where_and_what():
    descriptions = [what for what, _ in mutants("\nx = not a\nif b is c:\n    pass")]
    assert descriptions == [
        "line 2: dropped not in not a",
        "line 3: dropped: if b is c",
        "line 3: Is -> IsNot in b is c",
    ]


def test_other_enums_are_changed_when_asked_for():
    found = mutants("x = Colour.RED", members={"Colour": ("RED", "BLUE", "GREEN")})
    assert [mutated for _, mutated in found] == ["x = Colour.BLUE", "x = Colour.GREEN"]


def test_a_loaded_module_is_new_each_time_and_holds_what_its_source_says():
    first, second = load("x = [1]"), load("x = [1]", name="second")
    first.x.append(2)
    assert (first.x, second.x, second.__name__) == ([1, 2], [1], "second")
