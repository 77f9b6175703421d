"""Thousands of robots that drive side by side in one world, for training on a GPU or on two cores."""
