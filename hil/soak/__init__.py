"""Hours of simulated driving with one fault after another: what only a long life shows."""
