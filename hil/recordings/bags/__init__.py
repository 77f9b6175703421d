"""Bags of other robots, driven through the runtime open loop."""
