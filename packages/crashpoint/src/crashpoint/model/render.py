"""Predictions of many rows at once, as text for people and as JSON values for programs."""

from collections.abc import Mapping
from typing import TypedDict

from crashpoint.model.declaration import FIELDS, Declaration, Takeover
from crashpoint.model.predict import predict
from crashpoint.model.words import Barrier, FaultKind

__all__ = ["Predictions", "RowPrediction", "as_json", "table"]


class RowPrediction(TypedDict):
    """What one row declares (field -> word) and what is predicted for it (barrier -> outcome)."""

    declaration: dict[str, str]
    predicted: dict[str, str]


class Predictions(TypedDict):
    """The fault, and for each row name its prediction."""

    fault: str
    rows: dict[str, RowPrediction]


def as_json(rows: Mapping[str, Declaration], fault: FaultKind) -> Predictions:
    """Return the predictions for `rows` under `fault` as plain JSON values, in the rows' order."""
    return {
        "fault": fault.value,
        "rows": {
            name: {
                "declaration": d.words(),
                "predicted": {b.value: predict(d, b, fault).value for b in Barrier},
            }
            for name, d in rows.items()
        },
    }


def table(rows: Mapping[str, Declaration], fault: FaultKind) -> str:
    """Return the same as aligned text: a line of headings, then one line for each row.

    The takeover has a column if a row answers that question.
    """
    unasked = all(d.takeover is Takeover.WHILE_ALIVE for d in rows.values())
    fields = [field for field in FIELDS if not (unasked and field == "takeover")]
    lines = [["row", *(field.replace("_", " ") for field in fields), *(b.value for b in Barrier)]]
    for name, row in as_json(rows, fault)["rows"].items():
        words = [str(getattr(rows[name], field)) for field in fields]
        lines.append([name, *words, *row["predicted"].values()])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)
