"""What a row declares about itself, which is all that a prediction may see.

Five closed questions, so that every possible declaration can be listed. The fifth came later: who
does not answer it gives its first answer, and prints and pins what it did before.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import product, starmap
from types import MappingProxyType

__all__ = [
    "Declaration",
    "DeclarationError",
    "Determinism",
    "Durability",
    "EffectMode",
    "PersistOrder",
    "Takeover",
    "every_declaration",
]


class Durability(StrEnum):
    """Whether anything outlives the process."""

    NONE = "none"
    """Nothing does: recovery starts from the top."""
    JOURNALED = "journaled"
    """A completion, once persisted, is read by recovery and its effect is skipped."""


class PersistOrder(StrEnum):
    """Which of the two comes first; without durability, only where b1 lies."""

    BEFORE_EFFECT = "before-effect"
    """Completion persisted, then the effect."""
    AFTER_EFFECT = "after-effect"
    """The effect, then its completion persisted."""


class EffectMode(StrEnum):
    """What identifies an attempt to the receiver."""

    NAIVE = "naive"
    """No key: each attempt is an effect of its own."""
    IDEMPOTENT = "idempotent"
    """A key derived from the content of the action."""
    TWOPHASE = "twophase"
    """An identity made durable before the draw and carried through as the key."""


class Determinism(StrEnum):
    """Whether a second execution makes the same action."""

    REPRODUCIBLE = "reproducible"
    """It does."""
    DRAWN = "drawn"
    """It does not: the action contains a value drawn during the call."""


class Takeover(StrEnum):
    """When another process may take a run over from one that stands still."""

    WHILE_ALIVE = "while-alive"
    """After a time-out, or when somebody says so: the first may be alive and go on later."""
    AFTER_DEATH = "after-death"
    """Once the first is dead; whoever is outside of it and sees it stand still ends it."""


class DeclarationError(ValueError):
    """A declaration was made with something other than one of the declared words."""

    def __init__(self, field: str, value: object, words: type[StrEnum]) -> None:
        allowed = ", ".join(f"{words.__name__}.{word.name}" for word in words)
        super().__init__(f"{field}={value!r} declares nothing; use one of {allowed}")


@dataclass(frozen=True)
class Declaration:
    """The answers of one row. Raises `DeclarationError` for anything but an enum's member."""

    durability: Durability
    persist_order: PersistOrder
    effect_mode: EffectMode
    determinism: Determinism
    takeover: Takeover = Takeover.WHILE_ALIVE

    def __post_init__(self) -> None:
        """Refuse plain text: a misspelt word would be taken for one of the others."""
        for field, words in FIELDS.items():
            value = getattr(self, field)
            if not isinstance(value, words):
                raise DeclarationError(field, value, words)

    def words(self) -> dict[str, str]:
        """Return field name -> printed word, in the order of the fields.

        Without the takeover where it is the first answer: evidence pins the words of before.
        """
        words = {field: str(getattr(self, field)) for field in FIELDS}
        if self.takeover is Takeover.WHILE_ALIVE:
            del words["takeover"]
        return words


FIELDS: Mapping[str, type[StrEnum]] = MappingProxyType(
    {
        "durability": Durability,
        "persist_order": PersistOrder,
        "effect_mode": EffectMode,
        "determinism": Determinism,
        "takeover": Takeover,
    }
)
"""Field name of a `Declaration` -> the words it may hold, in the order of the fields."""


def every_declaration() -> tuple[Declaration, ...]:
    """Return every declaration there is: the whole product, 2 x 2 x 3 x 2 x 2."""
    return tuple(starmap(Declaration, product(*FIELDS.values())))
