"""A module whose import takes until the test lets go."""

from acceptance.broken_program import ring

ring("import")
