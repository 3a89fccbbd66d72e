"""docs/http.md lists the requests that there are."""

from __future__ import annotations

import re
from pathlib import Path

from outlive.server.http import ROUTES

DOCUMENT = Path(__file__).parents[5] / "docs" / "http.md"


def test_the_document_has_each_route_and_no_other():
    listed = re.findall(r"^\| `(GET|POST) (\S+)` \|", DOCUMENT.read_text(), re.MULTILINE)
    there = [(method, "/" + "/".join(path)) for method, path in ROUTES]
    assert listed == there
