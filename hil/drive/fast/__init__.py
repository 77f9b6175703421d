"""One drive at simulation speed: the compiled tick, held equal to the runtime."""
