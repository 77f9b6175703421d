"""Looks at everything, in the order of the page. Sends nothing, and opens no device that a running runtime has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path

from onboard.assembly import check_files
from onboard.config import DEFAULT_ROBOT, Config, load_config
from onboard.doctor import cameras, clock, engine, machine, network, running, service, wheels
from onboard.doctor.calibration import age
from onboard.doctor.cameras import Measured
from onboard.doctor.disk import disk
from onboard.doctor.finding import Finding, green, red
from onboard.doctor.hearing import Heard, hear
from onboard.doctor.measuring import REALSENSE, by_asking, by_opening
from onboard.doctor.power import power
from onboard.doctor.report import Report
from onboard.doctor.versions import versions
from onboard.drivers.capture import camera_sources
from onboard.drivers.dds_topics import domain_id
from onboard.drivers.realsense import list_devices
from onboard.errors import OnboardError
from onboard.mounts import Mounts, load_mounts
from onboard.scheduler import NS_PER_S, wall_ns

INSTALLED = Path("/etc/onboard/onboard.toml")
"""What the service runs with."""
SERIAL = "serial"
FIX_FILE = "correct the named file; `onboard check-config` shows what is in effect"


def examine(given: Path | None, seconds: float) -> Report:
    """Return the report about a robot: of the configuration given, else the service's, else the default one.

    Devices and the wire are listened to for `seconds` each.

    Raises nothing for what is wrong with the robot: that is a finding. It takes some seconds more for discovery, and
    for a camera to start.
    """
    path = given or (INSTALLED if INSTALLED.exists() else DEFAULT_ROBOT / "onboard.toml")
    state = service.unit_state()
    unit = [service.service(state), service.rights(state)]
    computer = [machine.memory(), machine.load(), machine.thermal(), power()]
    try:
        config = load_config(path)
        mounts = load_mounts(config.robot.mounts)
    except OnboardError as error:
        broken = red("configuration", str(error), FIX_FILE, file=str(path))
        return Report(
            str(path), (broken, *unit, clock.clock(clock.kept(), None, localised=False), *computer), (), False
        )
    told = _files(path, config)
    try:
        heard = hear(config, seconds)
    except OnboardError as error:
        return Report(config.robot.name, (told, network.unreachable(error), *unit, *computer), ())
    found = [told, *unit, *_robot(config, mounts, heard, seconds)]
    localised = bool(network.publishes(config.dds, heard.graph, "amcl_pose"))
    found += [clock.clock(clock.kept(), heard.stamp_ahead_s, localised=localised), disk(config.record)]
    return Report(config.robot.name, (*found, *computer, versions()), tuple(network.table(heard.graph)))


def _files(path: Path, config: Config) -> Finding:
    """Return whether the files that a configuration names are there and fit it."""
    try:
        check_files(config)
    except OnboardError as error:
        return red("configuration", str(error), FIX_FILE, file=str(path))
    return green("configuration", f"{path} and the files that it names", file=str(path))


def _robot(config: Config, mounts: Mounts, heard: Heard, seconds: float) -> list[Finding]:
    """Return what concerns the robot itself: runtime, wire, base, cameras, policy."""
    driving = running.is_claimed(domain_id(config.dds), config) or bool(heard.said)
    serial = config.odometry.input == SERIAL
    found = [
        *running.findings(heard.said, claimed=driving),
        network.peers(config.dds, heard.graph),
        network.command(config.dds, heard.graph, serial=serial),
        *network.fitting(config.dds, heard.graph),
    ]
    if serial:
        found.append(wheels.over_serial(config.odometry.serial_port, seconds, taken=driving))
    else:
        found.append(wheels.over_dds(config, heard.odometry_hz, network.publishes(config.dds, heard.graph, "odom")))
    found += _guarded("cameras", lambda: _cameras(config, mounts, heard, seconds, driving=driving))
    today = datetime.fromtimestamp(wall_ns() / NS_PER_S, tz=timezone.utc).date()
    found += _guarded("calibration", lambda: [age(config.robot.mounts, today)])
    return [*found, engine.policy(config, driving=driving)]


def _cameras(config: Config, mounts: Mounts, heard: Heard, seconds: float, *, driving: bool) -> list[Finding]:
    if driving:
        if not heard.said:
            return []
        told = by_asking(config, mounts, heard.said)
        return [cameras.camera(one) for one in told]
    measured = by_opening(config, mounts, seconds)
    if not measured:
        return [green("cameras", "the configuration has none")]
    return [*map(cameras.camera, measured), *_bus(config, mounts, measured)]


def _bus(config: Config, mounts: Mounts, measured: Sequence[Measured]) -> list[Finding]:
    live = [source for source in camera_sources(mounts, config.cameras) if not source.recording]
    if not live or not any(one.kind == REALSENSE for one in measured):
        return []
    return cameras.on_the_bus(live, list_devices())


def _guarded(part: str, look: Callable[[], list[Finding]]) -> list[Finding]:
    """Return what was found, or that looking itself failed."""
    try:
        return look()
    except OnboardError as error:
        return [red(part, str(error), "do what the line says, then ask again")]
