"""Where the robot is and where it goes: odometry, filter, start frame, mission."""
