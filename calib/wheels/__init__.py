"""Wheel odometry against a reference: what the wheels really do, and whether the fit can be trusted."""
