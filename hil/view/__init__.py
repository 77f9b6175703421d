"""A drive in Rerun: live, or from a recording."""
