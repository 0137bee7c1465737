"""The run folder on disk: its files and their manifest, weights, checkpoints, saving and locking."""
