"""Commands of `onboard-hil` that show a drive."""
