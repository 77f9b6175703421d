"""Driving without the robot: worlds, simulation, evaluation, replay, the twin."""
