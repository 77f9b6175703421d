"""The building's map: its file, where the robot can go in it, and how well a scan agrees with it."""
