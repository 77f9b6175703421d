"""`onboard bench`: speeds of this machine compared with their peers and budgets, and what limits them."""
