"""The loop as a Linux service: readiness, watchdog, published topics, the stop after any end."""
