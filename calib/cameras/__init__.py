"""Depth cameras: the floor in one image, extrinsics from what the robot sees while it moves, a rehearsal."""
