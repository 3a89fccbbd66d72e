"""The engine: the process that outlives the ones that run workflow code."""
