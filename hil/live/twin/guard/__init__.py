"""The guard that stops the real robot of the twin."""
