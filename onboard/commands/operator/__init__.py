"""What an operator says to a running robot and sees of it: goals, status, the live view."""
