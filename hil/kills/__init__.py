"""The runtime killed again and again at random instants of its drive, and how far the base rolled each time."""
