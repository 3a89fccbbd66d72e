"""A module whose import ends the process, as scripts without a guard do."""

import sys

sys.exit("usage: leaves FILE")
