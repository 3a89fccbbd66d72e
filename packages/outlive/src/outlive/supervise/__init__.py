"""Processes that watch processes: the warden of a runner, and a whole engine on one machine."""
