"""Devices behind the protocols of `onboard/values/interfaces.py`: one vendor library a file."""
