"""One file for each device library; see `onboard/interfaces.py` for what they offer."""
