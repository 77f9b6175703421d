"""The ablation whose actions are positions: its drive, expert and training."""
