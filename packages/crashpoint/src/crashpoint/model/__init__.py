"""The prediction from declarations: pure, total, standard library only.

`predict` says what must happen; everything else in this repository measures whether it does.
"""

from crashpoint.model.declaration import (
    Declaration,
    DeclarationError,
    Determinism,
    Durability,
    EffectMode,
    PersistOrder,
    Takeover,
    every_declaration,
)
from crashpoint.model.digest import predictions_digest
from crashpoint.model.interpreter import interpret
from crashpoint.model.predict import AtFault, at_fault, predict
from crashpoint.model.render import Predictions, RowPrediction, as_json, table
from crashpoint.model.rows import S1_ROWS, RowConflictError, with_s1_rows
from crashpoint.model.words import Barrier, FaultKind, Outcome, worst

__all__ = [
    "S1_ROWS",
    "AtFault",
    "Barrier",
    "Declaration",
    "DeclarationError",
    "Determinism",
    "Durability",
    "EffectMode",
    "FaultKind",
    "Outcome",
    "PersistOrder",
    "Predictions",
    "RowConflictError",
    "RowPrediction",
    "Takeover",
    "as_json",
    "at_fault",
    "every_declaration",
    "interpret",
    "predict",
    "predictions_digest",
    "table",
    "with_s1_rows",
    "worst",
]
