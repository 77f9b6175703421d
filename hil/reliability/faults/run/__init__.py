"""Faults over a simulated run, a recording, or the real process."""
