"""The last word on every command: limits, recovery, forbidden zones of the map."""
