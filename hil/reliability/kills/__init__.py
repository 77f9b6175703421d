"""The runtime killed at random instants, and how far the base rolled."""
