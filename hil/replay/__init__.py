"""A recording goes through the same runtime again; replay names the first difference."""
