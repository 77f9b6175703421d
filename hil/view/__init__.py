"""Looking at a drive: the live view, the same from a recording, in Rerun."""
