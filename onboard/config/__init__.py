"""What this robot is: configuration, camera mounts, plant, and the default robot."""
