"""The runtime on another machine: round trips measured on the wire."""
