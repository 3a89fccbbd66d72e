"""What workflow code sees, and the runner that drives it."""
