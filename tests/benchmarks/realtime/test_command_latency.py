"""How long a command takes to a ROS 2 node (rclpy): sent by the runtime's drive, and by another rclpy node.

Both send to the same reader in the same run, half a period apart.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onboard.drivers.dds.participant import Wire
from onboard.drivers.dds.robot_link import DdsDrive
from onboard.values.clock import NS_PER_S, MonotonicClock
from onboard.values.messages import Twist
from tests.rigs.network.loopback import DOMAIN, SECTION
from tests.rigs.network.ros2_peer import ROS_PYTHON, ros_environment

NODE = Path(__file__).parents[2] / "ros2/command_latency.py"
SECONDS = 20
BEGIN_S = 0.5
ARRIVED = 0.95
"""Share of the commands that the reader waits for: nodes that find each other late lose the first ones."""


@contextlib.contextmanager
def node(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Run a node; return once it is ready."""
    command = [str(ROS_PYTHON), str(NODE), *map(str, arguments)]
    with subprocess.Popen(
        command, env=ros_environment(DOMAIN), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def tell(process: subprocess.Popen[str], line: object) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def latencies_ms(hz: float, count: int) -> dict[str, Any]:
    """Return the latencies of both senders' commands."""
    clock, enough = MonotonicClock(), round(ARRIVED * count)
    with contextlib.closing(Wire(SECTION)) as wire, contextlib.closing(clock):
        drive = DdsDrive(wire, hz)
        with (
            node("read", "cmd_vel", enough, "peer/cmd_vel", enough) as reader,
            node("send", "peer/cmd_vel", count, hz) as sender,
        ):
            assert drive._writer.wait_for_reader(60.0)
            begun_ns = clock.now_ns() + round(BEGIN_S * NS_PER_S)
            tell(sender, begun_ns + round(NS_PER_S / hz / 2))
            for number in range(count):
                clock.hold_until(begun_ns + round(number * NS_PER_S / hz))
                drive.send(Twist(float(time.monotonic_ns()), 0.0))
            assert reader.stdout is not None
            arrived = json.loads(reader.stdout.readline())
        drive._closed = True  # the reader is gone, so nobody acknowledges a stop
    return {name: np.array(arrived[topic]) / 1e6 for name, topic in (("ours", "cmd_vel"), ("rclpy", "peer/cmd_vel"))}


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.skipif(ROS_PYTHON is None, reason="no ROS 2 here: `make test` prepares .venv-ros")
@pytest.mark.parametrize("hz", [30, 100])
def test_a_command_reaches_a_ros_2_node_as_soon_as_one_of_its_own(hz: int) -> None:
    arrived = latencies_ms(hz, SECONDS * hz)
    for percent in (50, 99):
        ours, peer = (float(np.percentile(arrived[name], percent)) for name in ("ours", "rclpy"))
        print(
            f"\ncommand latency at {hz:g} Hz, p{percent} ms: ours {ours:.3f}, rclpy {peer:.3f}, ratio {ours / peer:.2f}"
        )
    assert np.median(arrived["ours"]) < 1.2 * np.median(arrived["rclpy"])
