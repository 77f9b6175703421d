"""Looks at everything, in the order of the page. Moves nothing, and opens no device that a running runtime has.

All that it sends is the stop with which a serial base is opened, and what DDS itself says to find others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path

from onboard.assembly.assembly import check_files
from onboard.commands.doctor import cameras, clock, engine, host, mobile_base, network, service, wire_probe
from onboard.commands.doctor.camera_probe import REALSENSE, measure_by_diagnostics, measure_by_opening
from onboard.commands.doctor.cameras import CameraMeasurement, age, nearness
from onboard.commands.doctor.engine import versions
from onboard.commands.doctor.finding import Finding, amber, findings_of, green, red
from onboard.commands.doctor.host import power
from onboard.commands.doctor.report import Report
from onboard.commands.doctor.storage import disk, service_writer, this_process
from onboard.commands.doctor.wire_probe import RuntimeStatus, WireSurvey, survey
from onboard.config.config import DEFAULT_ROBOT, Config, load_config
from onboard.config.mounts import Mounts, load_mounts
from onboard.drivers.dds.topics import domain_id
from onboard.drivers.realsense.cameras import camera_sources
from onboard.drivers.realsense.device import Source, list_devices
from onboard.values.clock import NS_PER_S, wall_ns
from onboard.values.errors import ConfigError, OnboardError

INSTALLED = Path("/etc/onboard/onboard.toml")
"""What the service runs with."""
SERIAL = "serial"
POSE = "amcl_pose"
FIX_FILE = "correct the named file; `onboard check-config` shows what is in effect"
NOT_OPENED = f"not opened: {service.UNIT} is up, and may have it or take it in a moment"
STOP_FIRST = "`systemctl stop onboard` first; one that drives is asked by `onboard doctor` without --config"


def examine(given: Path | None, seconds: float) -> Report:
    """Return the report about a robot: of the configuration given, else the service's, else the default one.

    Devices and the wire are listened to for `seconds` each.

    Raises nothing for what is wrong with the robot: that is a finding. It takes some seconds more for discovery, and
    for a camera to start.
    """
    path = given or (INSTALLED if _is_installed() else DEFAULT_ROBOT / "onboard.toml")
    state = service.unit_state()
    unit = [*_row("service", lambda: service.service(state)), *_row("rights", lambda: service.rights(state))]
    try:
        config = load_config(path)
        mounts = load_mounts(config.robot.mounts)
    except OnboardError as error:
        broken = red("configuration", str(error), FIX_FILE, file=str(path))
        return Report(str(path), (broken, *unit, *_clock(None, None), *_computer()), (), False)
    found = [*findings_of("configuration", lambda: _files(path, config)), *unit]
    heard, ours = None, _is_of_the_service(path, state)
    try:
        config = service.as_served(config, state) if ours else config
        heard = survey(config, seconds)
    except (OnboardError, OSError) as error:
        found.append(network.unreachable(error))
    found += _robot(config, mounts, heard, seconds, state)
    found += _clock(config, heard)
    found += _row("disk", lambda: disk(config.record, service_writer(state) if ours else this_process()))
    topics = () if heard is None else tuple(network.table(heard.graph))
    return Report(config.robot.name, (*found, *_computer()), topics)


def _is_installed() -> bool:
    """Return whether there is a service's configuration, be it one that this user cannot read."""
    try:
        return INSTALLED.exists()
    except PermissionError:
        return True


def _files(path: Path, config: Config) -> list[Finding]:
    """Return whether the files that a configuration names are there and fit it."""
    try:
        check_files(config)
    except OnboardError as error:
        return [red("configuration", str(error), FIX_FILE, file=str(path))]
    return [green("configuration", f"{path} and the files that it names", file=str(path))]


def _computer() -> list[Finding]:
    """Return what concerns the computer, whatever runs on it."""
    rows: Sequence[tuple[str, Callable[[], Finding]]] = (
        ("memory", host.memory),
        ("load", host.load),
        ("temperature", host.thermal),
        ("power", power),
        ("versions", versions),
    )
    return [found for part, row in rows for found in _row(part, row)]


def _row(part: str, look: Callable[[], Finding]) -> list[Finding]:
    return findings_of(part, lambda: [look()])


def _clock(config: Config | None, heard: WireSurvey | None) -> list[Finding]:
    """Return how the clock is, compared with the stamps of others where they were heard."""
    localised = config is not None and heard is not None and bool(network.publishes(config.dds, heard.graph, POSE))
    ahead_s = None if heard is None else heard.stamp_ahead_s
    return _row("clock", lambda: clock.clock(clock.kernel_clock(), ahead_s, localised=localised))


def _is_of_the_service(path: Path, state: Mapping[str, str]) -> bool:
    """Return whether the service runs with this configuration: then it is read, and records, as the service does."""
    return state.get("LoadState") == "loaded" and path.resolve() == INSTALLED.resolve()


def _robot(
    config: Config, mounts: Mounts, heard: WireSurvey | None, seconds: float, state: Mapping[str, str]
) -> list[Finding]:
    """Return what concerns the robot itself: runtime, wire, base, cameras, policy; of the wire what was heard.

    state: of the service, as `unit_state` returns it. Where it runs, begins or ends and nothing is heard of it, it may
    still have devices: they are not opened. The policy is no device, and is tried unless one may drive by it now.
    """
    said = () if heard is None else heard.said
    driving = bool(said) or _is_claimed(config)
    shut = service.is_up(state) and not driving
    found = wire_probe.findings(said, claimed=driving) if heard is not None else []
    found += [] if heard is None else findings_of("dds", lambda: _wire(config, heard))
    found += findings_of("base", lambda: _base(config, heard, seconds, driving=driving, shut=shut))
    found += findings_of("cameras", lambda: _cameras(config, mounts, said, seconds, driving=driving, shut=shut))
    found += [] if config.scan.topic else nearness(mounts, config.cameras)
    today = datetime.fromtimestamp(wall_ns() / NS_PER_S, tz=timezone.utc).date()
    found += _row("calibration", lambda: age(config.robot.mounts, today))
    return [*found, *_row("policy", lambda: engine.policy(config, driving=driving or service.drives(state)))]


def _is_claimed(config: Config) -> bool:
    """Return whether a runtime of this machine has the robot; of a domain that is none nobody has one."""
    try:
        return wire_probe.is_claimed(domain_id(config.dds), config)
    except ConfigError:
        return False


def _wire(config: Config, heard: WireSurvey) -> list[Finding]:
    section, serial = config.dds, config.odometry.input == SERIAL
    return [
        network.peers(section, heard.graph),
        network.command(section, heard.graph, serial=serial),
        *network.fitting(section, heard.graph),
    ]


def _base(config: Config, heard: WireSurvey | None, seconds: float, *, driving: bool, shut: bool) -> list[Finding]:
    """Return how the base does; nothing of one on a wire that cannot be joined, which is a finding already."""
    if config.odometry.input == SERIAL:
        if shut:
            return [mobile_base.missing_port(config.odometry.serial_port) or amber("base", NOT_OPENED, STOP_FIRST)]
        return [mobile_base.over_serial(config.odometry.serial_port, seconds, taken=driving)]
    if heard is None:
        return []
    return [mobile_base.over_dds(config, heard.odometry_hz, network.publishes(config.dds, heard.graph, "odom"))]


def _cameras(
    config: Config, mounts: Mounts, said: Sequence[RuntimeStatus], seconds: float, *, driving: bool, shut: bool
) -> list[Finding]:
    if shut and _live(config, mounts):
        return [amber("cameras", NOT_OPENED, STOP_FIRST)]
    if driving:
        if not said:
            return []
        told = measure_by_diagnostics(config, mounts, said)
        return [cameras.camera(one) for one in told]
    measured = measure_by_opening(config, mounts, seconds)
    if not measured:
        return [green("cameras", "the configuration has none")]
    return [*map(cameras.camera, measured), *_bus(config, mounts, measured)]


def _bus(config: Config, mounts: Mounts, measured: Sequence[CameraMeasurement]) -> list[Finding]:
    live = _live(config, mounts)
    if not live or not any(one.kind == REALSENSE for one in measured):
        return []
    return cameras.on_the_bus(live, list_devices())


def _live(config: Config, mounts: Mounts) -> list[Source]:
    """Return the cameras that are devices of this computer. Raises ConfigError."""
    return [source for source in camera_sources(mounts, config.cameras) if not source.recording]
