"""Attacks on our own bench: what a subject could try in order to look better than it is."""
