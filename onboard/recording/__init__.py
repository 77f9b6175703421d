"""The tick on disk: written within a budget, repaired after a power cut."""
