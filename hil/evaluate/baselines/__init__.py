"""Policies to compare with: the planner with the true map, the blind policy."""
