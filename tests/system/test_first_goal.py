"""README's two processes and its first goal. A real ROS 2 node sends the goal and reads the states."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.rigs.machine.processes import ROOT, running
from tests.rigs.network.loopback import free_domain
from tests.rigs.network.ros2_peer import ROS_PYTHON, Peer

README = (ROOT / "README.md").read_text()
STATE, COMMANDS = "/onboard/state", "/cmd_vel"
DRIVE_S = 60.0
TOO_EARLY = "stopped: goal refused: there is no odometry yet"
UNDER_WAY = ("idle", "navigating", "recovering", TOO_EARLY)

pytestmark = [
    pytest.mark.skipif(ROS_PYTHON is None, reason="no ROS 2 here: `make test` prepares .venv-ros"),
    pytest.mark.timeout(600),  # two processes that may compile every kernel first, beside other tests
]


def printed(pattern: str) -> str:
    """Return the group of the pattern's only match in README."""
    (found,) = re.findall(pattern, README)
    return str(found)


def test_the_first_goal_of_the_readme_is_reached(tmp_path: Path) -> None:
    pub = re.search(r'topic pub -w 1 --times 3 --qos-durability transient_local (\S+) (\S+) "(.*)"', README)
    assert pub is not None
    sim = printed(r"\nonboard-hil (sim[^#\n]*?) +#").split()
    domain = free_domain()
    with (
        running("hil", *sim, folder=tmp_path, domain=domain) as world,
        running("onboard", printed(r"\nonboard (run) +#"), folder=tmp_path, domain=domain) as robot,
    ):
        world.wait_for(printed(r'wait for "(simulated [^"]*)"'))
        robot.wait_for(printed(r'wait for "(rea[^"]*)"'))
        node = Peer(domain)
        try:
            node.subscribe(STATE, "std_msgs/msg/String", qos="latched")
            node.subscribe(COMMANDS, "geometry_msgs/msg/Twist")
            states = drive(node, lambda: node.publish(pub[1], pub[2], yaml.safe_load(pub[3])))
            speeds = [line["fields"]["linear"]["x"] for line in node.heard if line.get("heard") == COMMANDS]
        finally:
            node.close()
        assert states[-1] == "reached", (states, robot.err)
        assert robot.end() == 0
    assert max(speeds) > 0.3
    assert "navigating" in states


def drive(node: Peer, ask: Callable[[], None]) -> list[str]:
    """Send the goal, again if the base was not there yet; return the states until the end of the drive."""
    ask()
    states, end_s = ["idle"], time.monotonic() + DRIVE_S
    while states[-1].startswith(UNDER_WAY) and time.monotonic() < end_s:
        heard = node.hear(STATE, qos="latched")
        assert heard is not None, f"no state after {states}"
        if heard["fields"]["data"] != states[-1]:
            states.append(heard["fields"]["data"])
            if states[-1] == TOO_EARLY:
                ask()
    return states
