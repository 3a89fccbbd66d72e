"""Crash a program at every point, and at every point of its recovery, and say which moments hurt."""
