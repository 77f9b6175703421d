"""Commands of `onboard-hil` for those who change the code."""
