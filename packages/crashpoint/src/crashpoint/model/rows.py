"""The 26 rows every prediction starts from: six controls and four rows each of five engines.

Rows added later are declared by their adapters; `with_s1_rows` puts them behind these, and no
row can take one of these names for another declaration.
"""

from collections.abc import Mapping
from types import MappingProxyType

from crashpoint.model.declaration import (
    Declaration,
    Determinism,
    Durability,
    EffectMode,
    PersistOrder,
)

__all__ = ["S1_ROWS", "RowConflictError", "with_s1_rows"]

_NULL = Declaration(
    Durability.NONE, PersistOrder.AFTER_EFFECT, EffectMode.NAIVE, Determinism.REPRODUCIBLE
)
_LOST = Declaration(
    Durability.JOURNALED, PersistOrder.BEFORE_EFFECT, EffectMode.NAIVE, Determinism.REPRODUCIBLE
)
_NAIVE = Declaration(
    Durability.JOURNALED, PersistOrder.AFTER_EFFECT, EffectMode.NAIVE, Determinism.REPRODUCIBLE
)
_IDEM = Declaration(
    Durability.JOURNALED, PersistOrder.AFTER_EFFECT, EffectMode.IDEMPOTENT, Determinism.REPRODUCIBLE
)
_NONDET = Declaration(
    Durability.JOURNALED, PersistOrder.AFTER_EFFECT, EffectMode.IDEMPOTENT, Determinism.DRAWN
)
_TWOPHASE = Declaration(
    Durability.JOURNALED, PersistOrder.AFTER_EFFECT, EffectMode.TWOPHASE, Determinism.DRAWN
)

_CONTROLS = {
    "r_null": _NULL,
    "r_dup": _NAIVE,
    "r_lost": _LOST,
    "r_idem": _IDEM,
    "r_diverge": _NONDET,
    "r_twophase": _TWOPHASE,
}
_ENGINES = ("lg", "tmp", "dbos", "restate", "vwf")
_OF_EACH_ENGINE = {"naive": _NAIVE, "idem": _IDEM, "nondet": _NONDET, "twophase": _TWOPHASE}

S1_ROWS: Mapping[str, Declaration] = MappingProxyType(
    _CONTROLS
    | {
        f"r_{engine}_{suffix}": declaration
        for engine in _ENGINES
        for suffix, declaration in _OF_EACH_ENGINE.items()
    }
)
"""Row name -> declaration, in printing order; read-only."""


class RowConflictError(ValueError):
    """A row declares something else under one of the 26 names."""

    def __init__(self, name: str, declared: Declaration) -> None:
        super().__init__(
            f"row {name} is declared as ({', '.join(declared.words().values())}), but that name "
            f"stands for ({', '.join(S1_ROWS[name].words().values())}); give the row another name"
        )


def with_s1_rows(others: Mapping[str, Declaration]) -> Mapping[str, Declaration]:
    """Return the 26 rows followed by those of `others` that are not among them; read-only.

    Raises `RowConflictError` if `others` holds one of the 26 names with another declaration.
    """
    for name, declared in others.items():
        if S1_ROWS.get(name, declared) != declared:
            raise RowConflictError(name, declared)
    return MappingProxyType({**S1_ROWS, **others})
