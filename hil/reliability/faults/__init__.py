"""Named faults, what each must lead to, and what it did."""
