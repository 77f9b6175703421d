"""Builds a robot from its configuration: devices, scanners, policy, runtime."""
