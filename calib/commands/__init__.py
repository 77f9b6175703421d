"""What an operator types: the commands of `onboard-calib`."""
