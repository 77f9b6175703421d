"""Starts `tests/ros2/peer.py`, a real ROS 2 node, and talks to it; found by ONBOARD_ROS_PYTHON or `.venv-ros`."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
from pathlib import Path
from typing import Any

from onboard.drivers.dds.participant import wait_until

HERE = Path(__file__).parents[2]
PATIENCE_S = 20.0
INTERPRETERS = [os.environ.get("ONBOARD_ROS_PYTHON"), str(HERE.parent / ".venv-ros" / "bin" / "python")]
ROS_PYTHON = next((path for path in INTERPRETERS if path and Path(path).exists()), None)
LOOPBACK = {
    "ROS_AUTOMATIC_DISCOVERY_RANGE": "SYSTEM_DEFAULT",
    "FASTDDS_DEFAULT_PROFILES_FILE": str(HERE.parent / "docs" / "ros2-loopback.xml"),
    "RMW_IMPLEMENTATION": "rmw_fastrtps_cpp",
}


def ros_environment(domain: int) -> dict[str, str]:
    """Return the environment of a node on a domain of this machine."""
    return {**os.environ, **LOOPBACK, "ROS_DOMAIN_ID": str(domain)}


class Peer:
    """A ROS 2 node on one domain."""

    def __init__(self, domain: int) -> None:
        self.process = subprocess.Popen(
            [str(ROS_PYTHON), str(HERE / "ros2" / "peer.py")],
            env=ros_environment(domain),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._lines: queue.Queue[dict[str, Any]] = queue.Queue()
        self.heard: list[dict[str, Any]] = []
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self._answer("ready")

    def order(self, answer: str, **order: Any) -> dict[str, Any]:
        """Give an order and return the answer that holds this key."""
        self.tell(**order)
        return self._answer(answer)

    def tell(self, **order: Any) -> None:
        """Give an order without waiting for the answer."""
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()

    def publish(self, topic: str, kind: str, fields: dict[str, Any] | None = None, qos: str = "default") -> None:
        """Publish once somebody listens."""
        answer = self.order("published", op="publish", topic=topic, type=kind, fields=fields or {}, qos=qos)
        assert answer["readers"], f"nobody listens to {topic}"

    def subscribe(self, topic: str, kind: str, qos: str = "default") -> None:
        """Listen to a topic from now on."""
        self.order("subscribed", op="subscribe", topic=topic, type=kind, qos=qos)

    def hear(self, topic: str, qos: str = "default", patience_s: float = PATIENCE_S) -> dict[str, Any] | None:
        """Return the next message of a topic, or None if there is none within the time."""

        def mine() -> list[dict[str, Any]]:
            while not self._lines.empty():
                self.heard.append(self._lines.get())
            return [line for line in self.heard if line.get("heard") == topic and line["qos"] == qos]

        if not wait_until(lambda: bool(mine()), patience_s):
            return None
        first = mine()[0]
        self.heard.remove(first)
        return first

    def close(self) -> None:
        """End the node."""
        self.process.stdin.close()
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._listener.join()
        self.process.stdout.close()

    def _listen(self) -> None:
        for line in self.process.stdout:
            self._lines.put(json.loads(line))
        self._lines.put({"ended": True})

    def _answer(self, key: str) -> dict[str, Any]:
        while True:
            line = self._lines.get(timeout=PATIENCE_S)
            if key in line:
                return line
            assert "ended" not in line, "the ROS 2 node ended; see its standard error"
            self.heard.append(line)
