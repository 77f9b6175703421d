"""The model: layers and checkpoints."""
