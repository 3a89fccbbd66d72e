"""One module or folder per engine: its rows, how it starts, recovers, and what its store says."""
