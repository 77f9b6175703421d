"""Whether the robot still is as it was calibrated: cameras, wheels, response of the base."""
