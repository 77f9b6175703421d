"""`onboard install`: versions side by side, one switch, and a rollback if the new version fails."""
