"""How well a policy drives: episodes run, counted and shown (paper 1, section 1.9)."""
