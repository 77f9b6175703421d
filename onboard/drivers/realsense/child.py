"""A process that touches librealsense: one task, given as JSON on its command line, then it ends.

    python -m onboard.drivers.realsense.child capture|info|read|list '{"parent_pid": ..., ...}'

It prints one JSON object a line to standard output, writes frames into the inherited shared memory, and dies with its
parent. `device.py` and `supervisor.py` are the other end.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from dataclasses import asdict
from types import FrameType
from typing import Any

import numpy as np

from onboard.drivers.realsense.device import Source, frame_form
from onboard.drivers.realsense.shared_memory import FrameSlots
from onboard.drivers.realsense.stream import Stream, connected_devices, reset
from onboard.system.threads import die_with_parent
from onboard.values.errors import DriverError, InputError, MissingExtraError
from onboard.values.images import policy_image, without_false_depth

POLL_S = 0.001
"""Poll period of the device; bounds the error of the arrival stamp."""


def report(event: str, **fields: Any) -> None:
    """Send one event to the parent."""
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()


def capture(order: dict[str, Any]) -> None:
    """Write frames into the shared memory until SIGTERM or a recording's end."""
    source = Source(**order["source"])
    stop = threading.Event()

    def ask_to_stop(_signal: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, ask_to_stop)
    if order["reset"]:
        reset(source.serial)
    slots = FrameSlots(order["fd"], *frame_form(source))
    stream = Stream(source)
    stream.start()
    report("started", info=asdict(stream.info))
    period_s = 1 / source.rate_hz if source.rate_hz else 0.0
    number = order["first_number"]
    while not stop.is_set() and not stream.ended():
        began_s = time.monotonic()
        captured = stream.poll()
        if captured is None:
            stop.wait(POLL_S)
            continue
        pixels = without_false_depth(captured.pixels) if source.stream == "depth" else policy_image(captured.pixels)
        slots.write(number, captured.stamp_ns, int(np.count_nonzero(pixels)), pixels)
        number += 1
        stop.wait(max(0.0, period_s - (time.monotonic() - began_s)))
    if not stop.is_set():
        report("ended")
    stream.close()


def info(order: dict[str, Any]) -> None:
    """Answer with the stream's description."""
    report("answer", info=asdict(Stream(Source(**order["source"])).info))


def read(order: dict[str, Any]) -> None:
    """Answer with one frame of a recording: pixels into the inherited memory, metadata as JSON."""
    source, index = Source(**order["source"]), order["index"]
    stream = Stream(source)
    stream.start()
    frames = 0
    while True:
        captured = stream.poll()
        if captured is None:
            if stream.ended():
                raise InputError(f"{source}: no depth frame {index}: has {frames} depth frames, 0 to {frames - 1}")
            time.sleep(POLL_S)
        elif frames == index:
            break
        else:
            frames += 1
    with os.fdopen(order["fd"], "wb") as memory:
        memory.write(np.ascontiguousarray(captured.pixels).data)
    height, width = captured.pixels.shape
    report("answer", stamp_ns=captured.device_stamp_ns, height=height, width=width)


def list_devices(_order: dict[str, Any]) -> None:
    """Answer with the connected devices."""
    report("answer", devices=[asdict(device) for device in connected_devices()])


TASKS = {"capture": capture, "info": info, "read": read, "list": list_devices}


def main(arguments: list[str]) -> int:
    """Run one task; return the exit code, 1 after an error that was reported."""
    task, order = arguments[0], json.loads(arguments[1])
    try:
        die_with_parent(order["parent_pid"])
        TASKS[task](order)
    except MissingExtraError as error:
        report("error", kind="missing", text=str(error))
    except InputError as error:
        report("error", kind="input", text=str(error))
    except (DriverError, OSError, RuntimeError) as error:
        report("error", kind="driver", text=str(error))
    else:
        return 0
    return 1


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))  # librealsense's destructors may hang or crash: leave without them
