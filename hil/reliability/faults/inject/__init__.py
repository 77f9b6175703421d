"""Faults put into images, scans, inputs and engines."""
