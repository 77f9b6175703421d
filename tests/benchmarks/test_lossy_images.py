"""Images over a network that loses packets: taken as they come, resent as Cyclone does by itself, and `dds.resend`.

Two processes in two namespaces, joined by `lossy_link`. Prints how many images came of those sent, and how old they
were on arrival (both ends are this machine, so here one clock serves both).
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from onboard.config.config import DdsSection
from onboard.drivers.dds.participant import Wire
from onboard.drivers.dds.ros_convert import ns_from_time, ros_image
from onboard.drivers.dds.topics import COMMAND, Topic, topic

sys.path.insert(0, str(Path(__file__).parents[2]))  # it starts itself as a script

from tests.rigs.network.lossy_link import DESKTOP, DEVICE, TARGET, Link, NoNamespacesError, lossy_link

DELAY_MS = 5.0
SECONDS = 6
DOMAIN = 90
PATIENCE_S = 60.0
LAST_S = 1.0
"""After the last image, for those that are sent again."""

#        what        bytes   Hz
IMAGES = {"depth 80x60": (9600, 15), "colour 256x144": (110592, 6), "depth 848x480": (814080, 3)}
WAYS = ("best effort", "cyclone's own", "dds.resend")
LOSSES = (0.0, 0.01, 0.1)
LARGE, MUCH = 100_000, 0.1
"""Of an image of some 80 packets hardly one comes whole when every tenth is lost (0.9 to the 80th is 0.0002)."""


def image_topic(way: str) -> Topic:
    """Return the row of an image as the runtime has it, or one that asks for resending without `dds.resend`."""
    row = topic("front/depth/image")
    return replace(row, quality=COMMAND) if way == "cyclone's own" else row


def send(wire: Wire, row: Topic, size: int, hz: int) -> None:
    """Publish random images at that rate, and print how many."""
    writer = wire.writer(row)
    if not writer.wait_for_reader(PATIENCE_S):
        raise SystemExit("there is no reader")
    image = np.random.default_rng(1).integers(0, 65535, (1, size // 2), dtype=np.uint16)
    pause, began_ns = threading.Event(), time.monotonic_ns()
    for number in range(SECONDS * hz):
        pause.wait(max(0.0, (began_ns + number * 10**9 // hz - time.monotonic_ns()) / 1e9))
        writer.write(ros_image(time.monotonic_ns(), "camera", "16UC1", image))
    pause.wait(LAST_S)
    print(json.dumps(SECONDS * hz))


def receive(wire: Wire, row: Topic) -> None:
    """Take images until no more come, and print how old each was on arrival [ms]."""
    reader, ages_ms = wire.reader(row), []
    until_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < until_s:
        if not reader.wait(0.1):
            continue
        now_ns = time.monotonic_ns()
        ages_ms += [(now_ns - ns_from_time(message.sample.header.stamp)) / 1e6 for message in reader.take()]
        until_s = time.monotonic() + 3 * LAST_S
    print(json.dumps(ages_ms))


def tried(link: Link, way: str, size: int, hz: int) -> tuple[int, list[float]]:
    """Return how many images were sent over the link, and the ages of those that came [ms]."""
    command = [sys.executable, __file__, way, str(size), str(hz)]
    ends = {"receive": link.target, "send": link.desktop}
    running = {
        end: subprocess.Popen([*prefix, *command, end], stdout=subprocess.PIPE, text=True)
        for end, prefix in ends.items()
    }
    sent = json.loads(running["send"].communicate()[0])
    return sent, json.loads(running["receive"].communicate()[0])


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("what", IMAGES)
@pytest.mark.parametrize("loss", LOSSES)
def test_what_comes_of_images(loss: float, what: str, capsys: pytest.CaptureFixture[str]) -> None:
    size, hz = IMAGES[what]
    came = {}
    for way in WAYS:
        try:
            with lossy_link(loss, DELAY_MS) as link:
                sent, ages_ms = tried(link, way, size, hz)
        except NoNamespacesError as error:
            pytest.skip(f"needs two network namespaces: {error}")
        came[way] = len(ages_ms)
        age = "" if not ages_ms else f"mean {np.mean(ages_ms):6.1f} ms, p99 {np.quantile(ages_ms, 0.99):6.1f} ms"
        with capsys.disabled():
            print(f"\n{100 * loss:3.0f} % lost  {what:15} {way:14} {len(ages_ms):4} of {sent:4}  {age}", end="")
    assert came["dds.resend"] > (came["best effort"] if loss >= MUCH and size >= LARGE else 0)


def main() -> None:
    """Be one end: WAY BYTES HZ send|receive."""
    way, size, hz, end = sys.argv[1:]
    peer = TARGET if end == "send" else DESKTOP
    section = DdsSection(domain=DOMAIN, interface=DEVICE, peers=[peer], resend=way == "dds.resend")
    with contextlib.closing(Wire(section)) as wire:
        if end == "send":
            send(wire, image_topic(way), int(size), int(hz))
        else:
            receive(wire, image_topic(way))


if __name__ == "__main__":
    main()
