"""How the colour encoder comes to see: rendered views, and what is how far ahead in them (paper 1, section 1.3)."""
