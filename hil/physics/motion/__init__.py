"""Motion models beyond the second order: a robot with hidden effects, and learned dynamics (paper 3)."""
