"""The reasons of commands (`onboard.limits.Reason`) as a person reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

FREE, IDLE, ZONE, STOP, LOST, BOUND, OPERATOR, OTHER = (
    "free", "idle", "zone", "stop", "lost", "bound", "operator", "other"
)  # fmt: skip
"""Kinds of reasons; the page has a colour for each."""


class Row(NamedTuple):
    """How a reason is called, of which kind it is, and what it means."""

    label: str
    kind: str
    meaning: str


REASONS: Mapping[str, Row] = {
    "none": Row("as wanted", FREE, "sent as it was wanted"),
    "idle": Row("idle", IDLE, "nothing is wanted: zero"),
    "engine_lost": Row("engine lost", LOST, "decisions have been missing for too long: zero"),
    "e_stop": Row("e-stop", STOP, "the e-stop holds: zero"),
    "teleop": Row("operator", OPERATOR, "an operator drives"),
    "stale_odometry": Row("odometry lost", LOST, "no odometry, or an old one: zero"),
    "stale_scan": Row("scan lost", LOST, "no scan for the limits, or an old one: zero"),
    "stale_policy_scan": Row("policy scan lost", LOST, "no scan for the policy, or an old one: zero"),
    "not_finite": Row("not finite", STOP, "what was wanted is no number: zero"),
    "speed": Row("top speed", BOUND, "held to the base's own top speed"),
    "acceleration": Row("acceleration", BOUND, "held to the bound on acceleration"),
    "speed_limit": Row("speed limit", BOUND, "held to the speed limit from outside"),
    "zone_stop": Row("stop zone", ZONE, "held to what comes to rest before an obstacle"),
    "zone_slow": Row("slow zone", ZONE, "slowed near an obstacle"),
    "time_to_contact": Row("time to contact", ZONE, "slowed for the time to the next contact"),
    "blind_ahead": Row("blind ahead", ZONE, "not driven to where no camera looks"),
    "remembered": Row("remembered", ZONE, "held by what was seen before where no camera looks now"),
    "obstacle": Row("obstacle told", ZONE, "not driven forward while an obstacle is told"),
    "keep_out": Row("keep-out zone", ZONE, "held to what comes to rest before a keep-out zone of the map"),
    "speed_zone": Row("speed zone", BOUND, "held to the speed zone of the map"),
    "blind_flank": Row("blind flank", ZONE, "slowed where no camera looks beside the way"),
}


def row_of(reason: str) -> Row:
    """Return what is known of a reason; one of another version stands for itself."""
    return REASONS.get(reason) or Row(reason, OTHER, "a reason that this version does not know")
