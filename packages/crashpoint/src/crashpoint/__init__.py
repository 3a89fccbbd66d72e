"""Crashes durable-execution engines at named points and counts, outside them, what really happened.

This module imports nothing, because it lies on the import path of processes under test.
"""

__version__ = "0.1.0"
