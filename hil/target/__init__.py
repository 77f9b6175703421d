"""The target in the loop: world and base here, `onboard run` on another machine, round trips measured on the wire."""
