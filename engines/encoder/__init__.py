"""Training of the colour encoder on rendered views (paper 1, Appendix B)."""
