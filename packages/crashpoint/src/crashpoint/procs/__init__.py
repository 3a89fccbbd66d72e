"""Processes the bench starts: zygotes and their subjects, the run's folder, and who cleans up."""
