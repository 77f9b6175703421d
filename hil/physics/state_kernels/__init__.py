"""State-space kernels (paper 2): where recorded reality leaves a simulator, and the state that follows there."""
