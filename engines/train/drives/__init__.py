"""What the drives of a training are: places, goals, and the ranges of the robot."""
