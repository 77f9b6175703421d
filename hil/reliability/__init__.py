"""Attempts to break the runtime: faults."""
