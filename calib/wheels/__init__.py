"""Wheel odometry against a reference, and the check of a later session against the calibration."""
