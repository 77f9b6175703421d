"""The model card: tables and plots from result files."""
