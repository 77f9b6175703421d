"""Names of topics as ROS users see them."""

from __future__ import annotations


def full_name(namespace: str, target: str) -> str:
    """Return a topic's full name: an absolute `target` as it is, any other behind the namespace."""
    parts = [] if target.startswith("/") else [namespace.strip("/")]
    return "/" + "/".join([*filter(None, parts), target.lstrip("/")])
