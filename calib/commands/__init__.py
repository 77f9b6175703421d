"""The operator's commands of `onboard-calib`."""
