"""A building as a grid: ROS maps, vector maps, meshes, materials."""
