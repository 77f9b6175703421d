"""The dynamic window: a costmap, a cost to go, and the policies `reactive` and `mapped`."""
