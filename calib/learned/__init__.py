"""Learned dynamics (paper 3): data, models, training, roll-out errors, and unattended collection."""
