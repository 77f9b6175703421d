"""Real processes over DDS: simulator, demo, tour of goals."""
