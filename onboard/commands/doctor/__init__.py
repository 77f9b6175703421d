"""`onboard doctor`: checks of this machine, each with what to do about it; nothing moves."""
