"""A camera's child without a camera: `python fake_camera.py MODE capture ORDER`; each mode is one way to behave."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from itertools import count

import numpy as np

from onboard.drivers.realsense.device import Source, frame_form
from onboard.drivers.realsense.shared_memory import FrameSlots
from onboard.system.threads import die_with_parent

PERIOD_S = 0.01
COVERED_PIXELS = 3
FRAMES = {"steady": None, "covered": None, "once": 1, "hang": 0, "crash": 2, "ends": 3, "fault": 0, "unplugged": 0}


def say(**event: object) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def image(mode: str, number: int, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    pixels = np.full(shape, number % 200 + 1, dtype)
    if mode == "covered":
        pixels.flat[COVERED_PIXELS:] = 0
    return pixels


def main(mode: str, order: dict) -> None:
    die_with_parent(order["parent_pid"])
    if mode == "hang":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    shape, dtype = frame_form(Source(**order["source"]))
    slots = FrameSlots(order["fd"], shape, dtype)
    say(event="started", info={"reset": order["reset"]})
    wanted = FRAMES[mode]
    for number in count(order["first_number"]):
        if wanted is not None and number - order["first_number"] >= wanted:
            break
        pixels = image(mode, number, shape, dtype)
        slots.write(number, time.monotonic_ns(), int(np.count_nonzero(pixels)), pixels)
        threading.Event().wait(PERIOD_S)
    if mode in ("once", "hang"):
        while True:
            signal.pause()
    if mode == "crash":
        sys.stderr.write("terminate called\n")
        sys.stderr.flush()
        os.abort()
    if mode == "ends":
        say(event="ended")
    if mode == "fault":
        say(event="error", kind="input", text="recording is damaged")
    if mode == "unplugged":
        say(event="error", kind="driver", text="not connected")
        sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[3]))
