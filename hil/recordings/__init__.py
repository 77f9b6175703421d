"""Reads recordings: files, sessions, ticks."""
