"""Buildings as grids: ROS maps, vector maps, meshes and materials."""
