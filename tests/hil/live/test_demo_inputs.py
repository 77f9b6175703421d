"""What a demo waits for: it says so, it ends, and it leaves out the sensors that the robot lacks."""

from __future__ import annotations

from typing import Any

import pytest
import typer

from hil.commands.drive.simulation import missing_is_exit_1
from hil.live import demo
from hil.live.dashboard import View
from hil.live.demo import MISSING_S, START_S, DriveLink, demo_config
from hil.live.simulator import NEEDED_HZ, slow_images
from onboard.config.config import Config, DdsSection
from onboard.system.waiting import Waiting

SCAN = "scan (none yet): /laser (sensor_msgs/msg/LaserScan): no publisher"


class Silence(DriveLink):
    """A link that hears what `heard` says at each second, and no DDS."""

    def __init__(self, heard: dict[int, Any]) -> None:
        self.view, self._section, self._heard = View("map"), DdsSection(), heard
        self._missing, self._fresh_scans, self.now_s, self.shown = "", 0, 0, []
        self._odometry = self

    def take(self) -> bool:
        return self.now_s >= self._heard["base"]

    def _poll_and_show(self, dashboard: Any, elapsed_s: float) -> None:
        self.now_s += 1
        self.shown.append(self.view.waiting)
        if self.now_s >= self._heard["runtime"]:
            self.view.values["x_m"] = "0.0"
            self._missing = SCAN
        self._fresh_scans = 9 if self.now_s >= self._heard["scans"] else 0


NEVER = 10**6
#   name                 base  runtime  scans   the error, or the last text    seconds
WAITS = [
    ("all is soon there", 2, 4, 6, None, 6),
    ("a slow compilation", 300, 400, 410, None, 410),
    ("no base", NEVER, 3, 3, "within 900 s: /odom of the base", START_S),
    ("no runtime", 3, NEVER, NEVER, "within 900 s: /diagnostics of the runtime", START_S),
    ("no scan", 3, 5, NEVER, f"within 60 s: {SCAN}", 5 + MISSING_S),
]


@pytest.mark.parametrize(
    ("base", "runtime", "scans", "error", "seconds"), [row[1:] for row in WAITS], ids=[row[0] for row in WAITS]
)
def test_a_demo_waits_for_each_part_and_ends(monkeypatch, capsys, base, runtime, scans, error, seconds):
    link = Silence({"base": base, "runtime": runtime, "scans": scans})
    monkeypatch.setattr(demo, "Waiting", lambda say: Waiting(say, lambda: float(link.now_s)))
    if error is None:
        link.wait_until_received(None)
        assert link.view.waiting == ""
    else:
        with pytest.raises(typer.Exit) as raised, missing_is_exit_1():
            link.wait_until_received(None)
        assert raised.value.exit_code == 1
        assert f"error: not received {error}" in capsys.readouterr().err
    assert link.now_s == pytest.approx(seconds, abs=2)
    said = [text for text in link.shown if text]
    assert bool(said) == (link.now_s > 12), "it says what it waits for when that takes more than ten seconds"


#   given source of depth, of single cameras    what a demo's runtime reads over DDS
SOURCES = [
    ("realsense", {}, {"front", "rear"}),
    ("none", {}, set()),
    ("none", {"front": "realsense"}, {"front"}),
    ("realsense", {"rear": "none"}, {"front"}),
    ("dds", {"rear": "realsense"}, {"front", "rear"}),
]


@pytest.mark.parametrize(("source", "sources", "over_dds"), SOURCES)
def test_a_demo_has_the_cameras_that_the_robot_has(source, sources, over_dds):
    given = Config(cameras={"source": source, "sources": sources, "color": "none"})
    cameras = demo_config(given, None).cameras
    assert {name for name in ("front", "rear") if cameras.source_of(name) == "dds"} == over_dds
    assert all(cameras.source_of(name) in ("dds", "none") for name in ("front", "rear"))


class Robot:
    def __init__(self, has_depth: bool) -> None:
        self.has_depth = has_depth


def test_slow_images_are_named_with_their_rate_and_only_where_there_are_cameras():
    assert "2.1 depth images/s of each camera, 5 needed" in slow_images(2.1, Robot(True))
    assert slow_images(NEEDED_HZ, Robot(True)) == ""
    assert slow_images(0.0, Robot(False)) == ""
