"""The model: layers, checkpoints, encoder features."""
