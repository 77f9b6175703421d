"""The dynamic window: a local costmap, a cost to go, and the `reactive` policy."""
