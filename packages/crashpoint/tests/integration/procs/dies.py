"""A module whose import crashes the interpreter."""

import os

os.abort()
