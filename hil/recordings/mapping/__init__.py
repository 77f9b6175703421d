"""A map of a building from recorded scans: keyframes, loop closures, pose graph, occupancy."""
