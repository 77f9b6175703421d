"""`onboard install`: versions side by side, one switch, and back when the new one does not come up."""
