"""What the runtime uses of Linux: signals, threads, logging, name resolution."""
