"""Policies to compare with: `mapped` with the true map, the blind policy."""
