"""The operator's interface to a running robot: goals, status, the live view."""
