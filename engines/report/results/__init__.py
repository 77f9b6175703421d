"""Reads and checks result files."""
