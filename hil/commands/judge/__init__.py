"""Commands of `onboard-hil` that judge: evaluation, replay, faults, and what paper 2 needs."""
