"""`onboard bench`: speeds of this machine beside their peers and budgets, and what limits them."""
