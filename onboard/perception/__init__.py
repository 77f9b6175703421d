"""Depth images and laser scans become the 180-bin scan, and the runtime remembers obstacles near by."""
