"""Long runs: locks, checkpoint files, resuming."""
