"""The sections of the model card."""
