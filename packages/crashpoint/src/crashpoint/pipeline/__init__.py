"""The one loop: worlds, points, faults, the trial as a fold over them, its verdict, its evidence."""
