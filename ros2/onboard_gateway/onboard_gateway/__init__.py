"""The gateway's half in the robot's own ROS 2. The other half is `onboard gateway`."""
