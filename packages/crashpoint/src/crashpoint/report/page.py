"""Puts a self-contained page together: one template, its style, its script and the data for it.

What comes from a document is escaped, and the page's policy lets only its own script run.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from crashpoint.report.palette import PALETTE

__all__ = ["rendered"]

HERE: Final = Path(__file__).parent


def rendered(
    template: str, *, styles: Sequence[str], script: str, data: Any, facts: Mapping[str, Any]
) -> str:
    """The page of a template beside this file; `data` is what its script reads."""
    import jinja2
    from markupsafe import Markup

    style = "".join(_text(name) for name in styles) + _palette_style()
    environment = jinja2.Environment(
        autoescape=True,
        loader=jinja2.FileSystemLoader(HERE),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(
        **facts,
        style=Markup(style),  # noqa: S704  ours
        script=Markup(_text(script)),  # noqa: S704  ours
        style_hash=_hash(style),
        script_hash=_hash(_text(script)),
        data=Markup(_embedded(data)),  # noqa: S704  escaped by _embedded
    )


def _text(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def _palette_style() -> str:
    return "".join(
        f".{outcome}{{background-color:{shade.fill};color:{shade.ink}}}\n"
        f"rect.{outcome}{{fill:{shade.fill}}}\n"
        for outcome, shade in PALETTE.items()
    )


def _hash(text: str) -> str:
    """How a content security policy names an inline text."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _embedded(value: Any) -> str:
    """JSON that ends no script element, whatever texts it holds."""
    text = json.dumps(value, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
