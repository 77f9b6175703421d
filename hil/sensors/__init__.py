"""Simulated sensors: ray-cast images, depth noise, the direct scan."""
