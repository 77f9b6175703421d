"""Attempts to break the runtime: faults, soak, kills."""
