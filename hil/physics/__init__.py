"""Motion and contact: the base, collision, free space, odometry noise."""
