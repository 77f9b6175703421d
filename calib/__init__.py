"""Measuring this robot: camera extrinsics, wheel odometry, dynamics."""
