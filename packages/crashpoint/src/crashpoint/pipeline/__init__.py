"""The one loop: worlds, points, faults, the trial that folds over them, verdict and evidence."""
