"""The operator's commands of `onboard-hil`."""
