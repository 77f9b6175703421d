"""Say what the tests took, and write which of them `make test` leaves to `make test-all`.

test_times.py TIMES SLOW_TESTS   TIMES: as `pytest --times` writes it
"""

from __future__ import annotations

import sys
from collections import defaultdict
from fnmatch import fnmatch
from pathlib import Path

BUDGET_S = 270.0
"""Of all processes together: two cores, at most four minutes, less what they need to start and to collect."""
SHARED_SETUP_S = 1.0
"""A fixture that takes longer is one for a whole file, which then is slow or not as a whole."""
ALWAYS = (
    "tests/onboard/safety/test_limits*",
    "tests/onboard/safety/test_recovery*",
    "tests/system/test_architecture.py*",
    "tests/onboard/perception/test_kernels.py*",
    "tests/hil/drive/fast/test_tick_kernels.py::test_they_equal_their_definitions",
    "tests/hil/replay/test_reference.py::test_the_runtime_does_what_was_agreed_on",
    "tests/onboard/drivers/realsense/test_device.py::test_the_real_recording_holds_real_frames",
    "tests/onboard/drivers/dds/test_end_to_end.py::test_a_real_recording_drives_and_a_ros_node_hears_it",
    "tests/onboard/drivers/dds/test_ros2.py::test_ros_hears_our_commands_and_the_stop",
)
"""Tests of `make test`, however long they take: safety rules, kernels against their definitions, the reference runs, a
librealsense playback that drives over DDS, and a ROS 2 node that hears it."""


def main(times: str, slow_tests: str) -> int:
    """Print a table of folders and the slowest; write the list."""
    rows = [line.split("\t") for line in Path(times).read_text(encoding="utf-8").splitlines()]
    split = {pattern.partition("::")[0] for pattern in ALWAYS if "::" in pattern}
    whole = {test.partition("::")[0] for took, when, test in rows if when == "setup" and float(took) >= SHARED_SETUP_S}
    whole -= split
    units: dict[str, float] = defaultdict(float)
    folders: dict[str, float] = defaultdict(float)
    for took, _, test in rows:
        file = test.partition("::")[0]
        units[file if file in whole else test] += float(took)
        folders["/".join(file.split("/")[:3])] += float(took)
    always = {unit for unit in units if any(fnmatch(unit, pattern) for pattern in ALWAYS)}
    slow, quick_s = [], sum(units[unit] for unit in always)
    for unit, took in sorted(units.items(), key=lambda row: row[1]):
        if unit in always:
            continue
        if quick_s + took <= BUDGET_S:
            quick_s += took
        else:
            slow.append(unit)
    for name, took in sorted(folders.items(), key=lambda row: -row[1]):
        sys.stdout.write(f"{took:8.1f} s  {name}\n")
    total_s = sum(units.values())
    sys.stdout.write(
        f"{total_s:8.1f} s  all; {quick_s:.1f} s of them in `make test`, which leaves out {len(slow)} tests or files\n"
    )
    head = "# Written by `make test-times`: what `make test` leaves to `make test-all`.\n"
    Path(slow_tests).write_text(head + "".join(f"{unit}\n" for unit in sorted(slow)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
