"""The palette in the eyes of people who see two primary colours, and on a grey print."""

from itertools import combinations

import pytest

from crashpoint.model import Outcome
from crashpoint.report.palette import MEANING, PALETTE

# Machado, Oliveira and Fernandes 2009, severity 1.0, for linear light.
SIGHT = {
    "all three": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "no red": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "no green": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "no blue": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
    "grey": [[0.2126, 0.7152, 0.0722]] * 3,
}


def linear(colour: str) -> list[float]:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]


def luminance(light: list[float]) -> float:
    return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), light, strict=True))


def lab(light: list[float]) -> tuple[float, float, float]:
    red, green, blue = (min(1.0, max(0.0, part)) for part in light)
    x = (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.95047
    y = luminance([red, green, blue])
    z = (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.08883
    x, y, z = (v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116 for v in (x, y, z))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def distance(one: Outcome, other: Outcome, sight: str) -> float:
    seen = [
        lab(
            [
                sum(w * p for w, p in zip(line, linear(PALETTE[o].fill), strict=True))
                for line in SIGHT[sight]
            ]
        )
        for o in (one, other)
    ]
    return sum((a - b) ** 2 for a, b in zip(*seen, strict=True)) ** 0.5


def test_every_outcome_has_a_colour_and_a_meaning():
    assert set(PALETTE) == set(MEANING) == set(Outcome)


@pytest.mark.parametrize("outcome", Outcome)
def test_ink_is_readable_on_its_fill(outcome):
    low, high = sorted(luminance(linear(c)) for c in PALETTE[outcome][:2])
    assert (high + 0.05) / (low + 0.05) >= 4.5


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize(("one", "other"), [*combinations(Outcome, 2)])
def test_any_two_outcomes_are_told_apart(one, other, sight):
    # VOID is hatched too, so it may lie closer to the palest fill; grey has lightness alone.
    enough = 10 if Outcome.VOID in {one, other} else 14 if sight == "grey" else 20
    assert distance(one, other, sight) >= enough
