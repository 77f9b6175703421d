"""Parallel drives that training learns from."""
