"""Crash a program at every point, and at every point of its recovery; say which moments hurt."""
