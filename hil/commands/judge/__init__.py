"""Commands of `onboard-hil` that judge: evaluation, replay, faults, kills, and what paper 2 needs."""
