"""Runs of many trials: the matrix, its statistics, its context, and the check of what it wrote."""
