"""What the diagnostics say of missing and slow inputs, for cameras and for lidars."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from onboard.drivers.dds.topics import Topic
from onboard.service.input_watch import ERROR, NOTHING, OK, WAITING, WARNING, InputWatch, causes, missing_in
from onboard.values.interfaces import Diagnostic, InputFault
from onboard.values.messages import BINS, STOP, CameraHealth, Inputs, Scan, Twist
from onboard.values.reasons import refused_goal
from tests.rigs.runtime_bench import Bench

LIDAR = {"scan": {"topic": "laser"}, "cameras": {"source": "none", "color": "none"}}
BOTH = {**LIDAR, "limits_scan": {}, "cameras": {"source": "dds"}}
FREE = np.full(BINS, 5.0, np.float32), np.ones(BINS, np.bool_)
NO_IMAGE = CameraHealth("front", False, "no image yet", 0, 0)


class Site:
    """A bench with the watch. lidar_hz: scans of a lidar a second; published: topics that somebody publishes."""

    def __init__(self, lidar_hz: float, published: set[str], dropped: Mapping[str, int], **sections: object) -> None:
        self.bench = Bench(**sections)
        self.watch = InputWatch(
            self.bench.config,
            lambda: [NO_IMAGE],
            lambda row: (row.name if isinstance(row, Topic) else row) in published,
            lambda: dropped,
            lambda: (OK, "all bins are seen"),
            lambda: self.withheld,
        )
        self.withheld: list[InputFault] = []
        self.bench.runtime._listeners = (*self.bench.runtime._listeners, self.watch)
        self.ends_ns = sys.maxsize
        self._period_ns = 1e9 / lidar_hz if lidar_hz else None
        self.bench.alter = self._with_scan

    def _with_scan(self, inputs: Inputs) -> Inputs:
        if self._period_ns is None:
            return inputs
        stamp_ns = min(int(inputs.now_ns // self._period_ns * self._period_ns), self.ends_ns)
        return replace(inputs, scans={"laser": Scan(stamp_ns, *FREE)})

    def rows(self, seconds: int) -> dict[str, Diagnostic]:
        """Live so long; return the newest rows."""
        newest: list[Diagnostic] = []
        for _ in range(seconds):
            self.bench.seconds(1.0)
            newest = [row() for row in self.watch.rows()]
        return {row[0]: row for row in newest}


NOBODY = "laser (sensor_msgs/msg/LaserScan): no publisher"
#   name            sections  Hz    published            refused               level    words of the row scan
SCANS = [
    ("well", LIDAR, 10.0, {"scan from laser"}, {}, OK, "10.0 scans/s, all bins are seen"),
    ("never", LIDAR, 0.0, set(), {}, ERROR, f"no scan yet: /{NOBODY}"),
    ("refused", LIDAR, 0.0, {"scan from laser"}, {"refused /laser": 7}, ERROR, "7 scans were refused"),
    ("too slow", LIDAR, 3.0, {"scan from laser"}, {}, WARNING, "3.0 scans a second, 5 needed: /laser"),
]


@pytest.mark.parametrize(
    ("sections", "hz", "published", "dropped", "level", "words"), [row[1:] for row in SCANS], ids=[r[0] for r in SCANS]
)
def test_the_row_of_a_lidar(sections, hz, published, dropped, level, words):
    row = Site(hz, published, dropped, **sections).rows(7)["scan"]
    assert (row[1], words in row[2]) == (level, True), row


def test_a_scan_that_ended_is_old():
    site = Site(10.0, set(), {}, **LIDAR)
    site.rows(2)
    site.ends_ns = site.bench.clock.now_ns()
    row = site.rows(2)["scan"]
    assert row[1] == ERROR
    assert f"ms old, limit 400 ms: /{NOBODY}" in row[2]


def test_cameras_are_named_with_topic_and_reason():
    site = Site(0.0, set(), {})
    site.bench.images.clear()
    row = site.rows(3)["scan"]
    assert row[1] == ERROR
    assert "/front/depth/image (sensor_msgs/msg/Image): no publisher, no image yet" in row[2]


def test_a_scan_of_the_limits_has_a_row_of_its_own():
    rows = Site(10.0, {"scan from laser"}, {}, **BOTH).rows(4)
    assert (rows["scan"][1], rows["limits_scan"][1]) == (OK, OK)
    assert list(rows) == ["scan", "limits_scan", WAITING]


def test_what_is_missing_is_an_error_and_in_the_state_after_ten_seconds_and_clears():
    site = Site(0.0, set(), {}, **LIDAR)
    site.bench.reports = False
    early = site.rows(5)[WAITING]
    assert (early[1], site.watch.faults()) == (OK, ())
    late = site.rows(7)[WAITING]
    assert late[1] == ERROR
    assert "odometry (none yet): /odom (nav_msgs/msg/Odometry): no publisher" in late[2]
    assert f"scan (none yet): /{NOBODY}" in late[2]
    (fault,) = site.watch.faults()
    assert fault.reason == f"waiting for {late[2]}"
    assert site.rows(2)[WAITING][2] == late[2], "the state must not change with every age"
    other = InputFault("odometry", "second publisher on /odom: a and b")
    assert (causes([fault]), causes([fault, other])) == ([fault], [other])
    for no_cause in (
        replace(other, standing=False),
        replace(other, row="command"),
        replace(other, row="topic /e_stop"),
    ):
        assert causes([fault, no_cause]) == [fault, no_cause]
    assert missing_in(fault.reason) == missing_in(late[2]) == late[2]
    assert missing_in(NOTHING) == ""
    site.bench.reports, site._period_ns = True, 1e8
    assert site.rows(1)[WAITING][1:3] == (OK, NOTHING)
    assert site.watch.faults() == ()


#   bins that are seen                                        whether the robot drives
VIEWS = [
    ("all", np.ones(BINS, np.bool_), True),
    ("every fifth blind", np.arange(BINS) % 5 > 0, False),
    ("40 % blind", np.random.default_rng(1).random(BINS) > 0.4, False),
    ("one bin ahead blind: it looks and drives", np.arange(BINS) != BINS // 2, True),
    ("none behind", np.abs(np.arange(BINS) - BINS // 2 + 0.5) < 60, True),
]


@pytest.mark.parametrize(("seen", "drives"), [row[1:] for row in VIEWS], ids=[row[0] for row in VIEWS])
def test_a_robot_that_would_turn_for_ever_says_which_bins_are_blind(seen, drives):
    site = Site(10.0, {"scan from laser"}, {}, **LIDAR)
    why = f"{int((~seen).sum())} of 180 bins are blind: 3 of 9 rays are 0.0"
    site.watch._ready_made = lambda: (WARNING, why)
    whole, seen_now = site.bench.alter, [seen]
    site.bench.alter = lambda inputs: replace(
        inputs,
        scans={"laser": replace(whole(inputs).scans["laser"], ranges_m=np.full(BINS, np.inf), seen=seen_now[0])},
    )
    site.bench.driving()
    found = []
    for _ in range(8):
        site.bench.seconds(1.0)
        found.append(site.watch.faults())
    assert found[:3] == [()] * 3
    assert found[-1] == (() if drives else (InputFault("scan", why),))
    seen_now[0] = np.ones(BINS, np.bool_)
    site.bench.seconds(4.0)
    assert site.watch.faults() == ()


def test_the_end_of_a_drive_that_blind_bins_held_says_so_until_the_next_drive():
    site = Site(10.0, {"scan from laser"}, {}, **LIDAR, goal={"progress_timeout_s": 12.0})
    site.watch._ready_made = lambda: (WARNING, "120 of 180 bins are blind")
    whole, seen = site.bench.alter, [np.arange(BINS) % 3 > 1]
    site.bench.alter = lambda inputs: replace(
        inputs, scans={"laser": replace(whole(inputs).scans["laser"], seen=seen[0])}
    )
    site.bench.driving(x_m=3.0)
    ended = site.bench.seconds(20.0)[-1]
    assert (ended.state, ended.command) == ("stopped: no progress towards the goal for 12 s", STOP)
    assert site.watch.faults() == (InputFault("scan", "120 of 180 bins are blind"),)
    seen[0] = np.ones(BINS, np.bool_)
    site.bench.driving(x_m=3.0)
    assert site.watch.faults() == ()


def test_an_input_that_comes_and_is_not_used_is_not_called_missing():
    site = Site(0.0, {"scan from laser", "odom"}, {}, **LIDAR)
    two = "second publisher on {}: a and b: stop one of them, or remap it"
    site.bench.reports = False
    site.withheld = [InputFault("scan", two.format("/laser")), InputFault("odometry", two.format("/odom"))]
    missing = site.rows(2)[WAITING][2]
    assert f"odometry ({two.format('/odom')}): /odom (nav_msgs/msg/Odometry)" in missing
    assert f"scan ({two.format('/laser')}): /laser" in missing
    site.withheld = [InputFault(fault.row, refused_goal(fault.reason)) for fault in site.withheld]
    assert site.rows(1)[WAITING][2] == missing
    site.withheld = site.withheld[1:]
    assert "scan (withheld until the second publisher is gone): /laser" in site.rows(1)[WAITING][2]
    site.withheld = [InputFault("scan", "/other: a scan of 3 rays is refused")]
    assert "odometry (none yet)" in site.rows(1)[WAITING][2]
    assert "scan (none yet)" in site.rows(1)[WAITING][2]


def test_refused_odometry_is_named_with_a_reason_that_keeps_its_numbers():
    site = Site(10.0, {"scan from laser", "odom"}, {}, **LIDAR)
    speeds = iter(range(50, 10_000))

    def too_fast(inputs: Inputs) -> Inputs:
        twist = Twist(float(next(speeds)), 0.0)
        return replace(inputs, odometry=tuple(replace(message, twist=twist) for message in inputs.odometry))

    site.bench.alter = lambda inputs: too_fast(site._with_scan(inputs))
    missing = site.rows(2)[WAITING][2]
    assert missing.startswith("odometry (")
    assert "odometry refused: v is" in missing
    assert site.rows(2)[WAITING][2] == missing, "the state must not change with every message"
