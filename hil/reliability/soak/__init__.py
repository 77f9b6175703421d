"""Hours of simulated driving with one fault after another."""
