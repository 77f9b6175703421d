"""Smaller trainings that differ in one part, driven alike."""
