"""Bags of other robots through the runtime, open loop: what it would have seen and decided on their inputs."""
