"""A matrix as text."""
from __future__ import annotations
from typing import Any, Mapping
def matrix(document: Mapping[str, Any], *, seconds: float | None = None) -> str:
    out=[]
    for c in document["summary"]["cells"]:
        out.append(f"{c['row']:16} {c['barrier']} predicted {c['predicted']:13} rate {c['rate']} {c['interval']} {c['counts']} {c['reasons']} hot {c['recover_hot_us']} cold {c['recover_cold_us']} wrong {c['wrong_results']}")
    out += document["summary"]["findings"]
    out.append(str(document["summary"]["controls"]))
    out.append(f"{seconds} exit {document['summary']['exit']}")
    return "\n".join(out)
