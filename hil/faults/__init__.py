"""Named faults, what each must come to, and what it did: over a simulated run, a recording, or the real process."""
