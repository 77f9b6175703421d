"""Messages to show, as they come over DDS. The view only listens, and never asks a sender to wait or to repeat."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

from hil.view.heard import Heard
from hil.view.pump import Pump
from onboard.drivers.dds_topics import Quality, topic
from onboard.drivers.wire import Reader, Wire
from onboard.mounts import Mounts
from onboard.scheduler import wall_ns

PLAIN = (
    "tf", "odom", "scan", "limits_scan", "cmd_vel", "cmd_vel_teleop", "state", "diagnostics", "goal_pose", "amcl_pose",
    "obstacle", "e_stop",
)  # fmt: skip
STREAM = Quality(depth=20, read_best_effort=True)
"""What the view asks for: what arrives. No acknowledgement of ours is ever waited for, not even by a runtime that ends;
what was said before we came (a goal) is not heard."""
IMAGES = Quality(depth=1, read_best_effort=True)
POLL_S = 0.05


class Ears:
    """Readers of all that is shown."""

    def __init__(self, wire: Wire, mounts: Mounts, images: bool) -> None:
        """Open the readers; without `images` no camera is asked to send any. Raises ConfigError, DriverError."""
        names = dict.fromkeys(PLAIN, STREAM)
        if images:
            names |= {f"{camera}/depth/image": IMAGES for camera in mounts.depth}
            names |= {"color/image": IMAGES} if mounts.color else {}
        self._readers: dict[str, Reader] = {
            name: wire.reader(replace(topic(name), quality=quality)) for name, quality in names.items()
        }

    def wait(self) -> None:
        """Return when there may be something new."""
        self._readers["tf"].wait(POLL_S)

    def take(self) -> list[Heard]:
        """Return what came since the last call. Raises DriverError when the link is gone."""
        now_ns = wall_ns()
        return [Heard(name, now_ns, one.sample) for name, reader in self._readers.items() for one in reader.take()]


def listen(ears: Ears, pump: Pump, over: threading.Event, seconds: float | None, watched: Callable[[], bool]) -> None:
    """Pass on what is heard until `over` is set, for so long, or until nobody looks any more (`watched`)."""
    deadline_s = None if seconds is None else time.monotonic() + seconds
    while not over.is_set() and watched():
        ears.wait()
        for heard in ears.take():
            pump.put(heard)
        if deadline_s is not None and time.monotonic() >= deadline_s:
            return
