"""Driving without the robot: plant, world, simulation, demo."""
