"""Replay: a recording through the very same runtime, and where it first differs."""
