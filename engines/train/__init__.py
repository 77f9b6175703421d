"""Training of the policy: DAgger, then PPO, in stages that checkpoint and resume."""
