"""Every adapter by name, and every row by name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from crashpoint.adapters.controls import Controls
from crashpoint.adapters.langgraph import LangGraph
from crashpoint.adapters.outlive import Outlive
from crashpoint.model import Declaration
from crashpoint.pipeline.contract import Adapter, Row

__all__ = ["adapters", "all_rows", "find_row"]


@cache
def adapters() -> Mapping[str, Adapter]:
    """The adapters, by name."""
    known: tuple[Adapter, ...] = (Controls(), LangGraph(), Outlive())
    return MappingProxyType({adapter.name: adapter for adapter in known})


def find_row(name: str) -> tuple[Adapter, Row] | None:
    """The adapter and row of a name, or None."""
    for adapter in adapters().values():
        for row in adapter.rows():
            if row.name == name:
                return adapter, row
    return None


def all_rows() -> Mapping[str, Declaration]:
    """What each registered row declares, by row name."""
    return {row.name: row.declaration for adapter in adapters().values() for row in adapter.rows()}
