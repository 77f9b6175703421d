"""The model card: tables from result files."""
