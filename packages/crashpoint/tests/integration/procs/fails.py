"""A module whose import fails with more than a line."""

raise RuntimeError("no licence\nfound in\n\tthis country")
