"""Export of runs as portable C."""
