"""Training of the policy in the batched world, in calls that checkpoint and resume."""
