"""Depth noise fitted to real frames."""
