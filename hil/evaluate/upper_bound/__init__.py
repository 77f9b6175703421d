"""What the best estimate of the pose allows any policy."""
