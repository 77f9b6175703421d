"""From the start of `onboard run` to READY, and its memory: a process with the robot's policy and no device."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from onboard.commands.bench.output import own_domain
from onboard.commands.bench.rows import Row, row
from onboard.config.config import Config
from onboard.config.toml_text import as_toml
from onboard.values.errors import DriverError

MANAGER = ("NOTIFY_SOCKET", "RUNTIME_DIRECTORY")
"""Variables that a service manager sets; the child is not a service."""
DRIVES_S = 0.1
MB = 1024
_PEAK = re.compile(r"^VmHWM:\s+(\d+) kB", re.MULTILINE)


def starts(config: Config) -> Iterator[Row]:
    """Yield the time of two starts to READY [s], and the largest memory of the second until then [MB].

    Kernels are compiled before, as `onboard install` does. Raises DriverError if the runtime does not start.
    """
    with tempfile.TemporaryDirectory(prefix="onboard-bench-") as folder:
        file = Path(folder) / "onboard.toml"
        file.write_text(as_toml(without_devices(config, Path(folder)), ""), encoding="utf-8")
        compiling = [sys.executable, "-m", "onboard", "compile", "--config", str(file)]
        subprocess.run(compiling, capture_output=True, check=False)
        first_s, _ = _start(file)
        second_s, peak_mb = _start(file)
    note = f"{config.policy.name}, no devices"
    yield row("start to READY, first", first_s, "s", note=f"{note}; compiled before")
    yield row("start to READY", second_s, "s", first_s, f"{note}; peer: the first start")
    yield row("memory", peak_mb, "MB", note=f"{note}; largest up to READY")


def without_devices(config: Config, folder: Path) -> Config:
    """Return the robot with nothing that moves or that another process may hold; recordings go to the folder."""
    changed = {
        "dds": own_domain(),
        "cameras": config.cameras.model_copy(update={"source": "dds", "sources": {}, "color": "dds"}),
        "odometry": config.odometry.model_copy(update={"input": "dds"}),
        "record": config.record.model_copy(update={"directory": folder / "recordings"}),
    }
    return config.model_copy(update=changed)


def _start(file: Path) -> tuple[float, float]:
    """Return the time to READY [s] and the largest memory until then [MB] of one run. Raises DriverError."""
    arguments = ["run", "--config", str(file), "--for", str(DRIVES_S), "--log-json", "--no-status"]
    environment = {name: value for name, value in os.environ.items() if name not in MANAGER}
    begun_s, ready_s, peak_mb, last = time.monotonic(), 0.0, 0.0, ""
    with subprocess.Popen(
        [sys.executable, "-m", "onboard", *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        for line in child.stderr or ():
            last = line.strip() or last
            if not ready_s and _event(line) == "ready":
                ready_s = time.monotonic() - begun_s
                found = _PEAK.search(Path(f"/proc/{child.pid}/status").read_text())
                peak_mb = int(found[1]) / MB if found else 0.0
    if not ready_s:
        raise DriverError(f"`onboard run` did not become ready: {last}")
    return ready_s, peak_mb


def _event(line: str) -> str:
    try:
        return str(json.loads(line).get("event"))
    except (ValueError, AttributeError):
        return ""
