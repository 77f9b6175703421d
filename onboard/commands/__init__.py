"""The operator's commands of `onboard`, except `run`."""
