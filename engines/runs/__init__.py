"""Long runs: processes, locks, checkpoint files, resuming."""
