"""The command `onboard doctor`.

It moves nothing, and opens no device of a running runtime. It sends only the stop that opening a serial base sends, and
DDS discovery.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated

import typer

from onboard.assembly.assembly import check_files
from onboard.assembly.policies import engine_cache
from onboard.assembly.robot import imu_rows, lidar_rows, used_mounts
from onboard.commands.cli import STANDARD_OUTPUT, JsonOption, check_json_target, finite, write_json
from onboard.commands.doctor import cameras, engine, host, mobile_base, network, service, wire_probe
from onboard.commands.doctor.camera_probe import measure_by_diagnostics, measure_by_opening
from onboard.commands.doctor.cameras import CameraMeasurement, age, nearness
from onboard.commands.doctor.engine import versions
from onboard.commands.doctor.finding import Finding, amber, findings_of, green, red
from onboard.commands.doctor.host import power
from onboard.commands.doctor.report import Report, console_for, show
from onboard.commands.doctor.storage import disk, service_writer, this_process
from onboard.commands.doctor.wire_probe import RuntimeStatus, WireSurvey, survey_wire
from onboard.config.config import DEFAULT_ROBOT, Config, load_config
from onboard.config.mounts import Mounts, load_mounts
from onboard.drivers.dds.topics import domain_id, topic
from onboard.drivers.realsense.cameras import camera_sources
from onboard.drivers.realsense.device import Source, list_devices
from onboard.system.log import configure
from onboard.values.clock import NS_PER_S, wall_ns
from onboard.values.errors import ConfigError, OnboardError


def doctor(
    config: Annotated[
        Path | None, typer.Option("--config", help="TOML file. Without it: the service's, else the default robot.")
    ] = None,
    json_file: JsonOption = None,
    seconds: Annotated[
        float, typer.Option("--for", min=0.5, max=60.0, help="Duration of the measurement, in s.", callback=finite)
    ] = 3.0,
) -> None:
    """Check everything that a drive needs: green, amber or red, and what to do. Exit code 1: something is red."""
    configure()
    check_json_target(json_file)
    report = examine(config, seconds)
    write_json(json_file, report.as_json())
    if json_file != STANDARD_OUTPUT:
        show(report, console_for(sys.stdout))
    raise typer.Exit(report.exit_code)


INSTALLED = Path("/etc/onboard/onboard.toml")
"""The configuration of the service."""
SERIAL = "serial"
POSE = "amcl_pose"
FIX_FILE = "correct the named file; `onboard check-config` shows what is in effect"
NOT_OPENED = f"not opened: {service.UNIT} is running and may be using it"
STOP_FIRST = "`systemctl stop onboard` first; to check the running service, leave --config out"


def examine(given: Path | None, seconds: float) -> Report:
    """Return the report about a robot: of the given configuration, else the service's, else the default robot's.

    Listens to devices and to the wire for `seconds` each; discovery and a camera's start take some seconds more.
    Problems of the robot are findings and raise nothing.
    """
    path = given or (INSTALLED if _is_installed() else DEFAULT_ROBOT / "onboard.toml")
    state = service.unit_state()
    unit = [*_row("service", lambda: service.service(state)), *_row("rights", lambda: service.rights(state))]
    try:
        config = load_config(path)
        mounts = used_mounts(config, load_mounts(config.robot.mounts))
    except OnboardError as error:
        broken = red("configuration", str(error), FIX_FILE, file=str(path))
        return Report(str(path), (broken, *unit, *_clock(None, None), *_computer()), (), False)
    found = [*findings_of("configuration", lambda: _files(path, config)), *unit]
    survey, ours = None, _is_of_the_service(path, state)
    try:
        config = service.as_served(config, state) if ours else config
        survey = survey_wire(config, seconds)
    except (OnboardError, OSError) as error:
        found.append(network.unreachable(error))
    found += _robot(config, mounts, survey, seconds, state, service.home(state) if ours else None)
    found += _clock(config, survey)
    found += _row("disk", lambda: disk(config.record, service_writer(state) if ours else this_process()))
    topics = () if survey is None else tuple(network.table(survey.graph))
    return Report(config.robot.name, (*found, *_computer()), topics)


def _is_installed() -> bool:
    """Return whether the service's configuration exists, readable by this user or not."""
    try:
        return INSTALLED.exists()
    except PermissionError:
        return True


def _files(path: Path, config: Config) -> list[Finding]:
    """Return whether the files that a configuration names exist and fit it."""
    try:
        check_files(config)
    except OnboardError as error:
        return [red("configuration", str(error), FIX_FILE, file=str(path))]
    return [green("configuration", f"{path} and the files that it names", file=str(path))]


def _computer() -> list[Finding]:
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


def _clock(config: Config | None, survey: WireSurvey | None) -> list[Finding]:
    """Return the clock's finding, compared with odometry's stamps if odometry came."""
    localised = config is not None and survey is not None and bool(network.publishes(config.dds, survey.graph, POSE))
    ahead_s = None if survey is None else survey.stamp_ahead_s
    return _row("clock", lambda: host.clock(host.kernel_clock(), ahead_s, localised=localised))


def _is_of_the_service(path: Path, state: Mapping[str, str]) -> bool:
    """Return whether the service runs with this configuration; it is then read as the service reads it."""
    return state.get("LoadState") == "loaded" and path.resolve() == INSTALLED.resolve()


def _robot(
    config: Config,
    mounts: Mounts,
    survey: WireSurvey | None,
    seconds: float,
    state: Mapping[str, str],
    home: Path | None,
) -> list[Finding]:
    """Return the findings about the robot: runtime, wire, base, cameras, policy.

    home:  of the user that runs the policy; None: of this user
    state: of the service, as `unit_state` returns it. A service that is up but silent may still hold devices, so they
    are not opened. The policy is tried unless a runtime may drive with it now.
    """
    statuses = () if survey is None else survey.statuses
    driving = bool(statuses) or _is_claimed(config)
    closed = service.is_up(state) and not driving
    found = wire_probe.findings(statuses, claimed=driving) if survey is not None else []
    found += [] if survey is None else findings_of("dds", lambda: _wire(config, mounts, survey))
    found += findings_of("base", lambda: _base(config, survey, seconds, driving=driving, closed=closed))
    found += findings_of("cameras", lambda: _cameras(config, mounts, statuses, seconds, driving=driving, closed=closed))
    if survey is not None and not driving:
        found += findings_of("lidar", lambda: _lidars(config, survey))
    found += [] if not config.scan.uses_cameras else nearness(mounts, config.cameras)
    today = datetime.fromtimestamp(wall_ns() / NS_PER_S, tz=timezone.utc).date()
    found += _row("calibration", lambda: age(config.robot.mounts, today)) if mounts.depth or mounts.color else []
    return [
        *found,
        *_row("policy", lambda: engine.policy(config, engine_cache(home), driving=driving or service.drives(state))),
    ]


def _is_claimed(config: Config) -> bool:
    """Return whether a runtime of this machine has claimed the robot; False for a bad domain."""
    try:
        return wire_probe.is_claimed(domain_id(config.dds), config)
    except ConfigError:
        return False


def _wire(config: Config, mounts: Mounts, survey: WireSurvey) -> list[Finding]:
    section, serial = config.dds, config.odometry.input == SERIAL
    images = [topic(f"{name}/depth/image") for name in mounts.depth if config.cameras.source_of(name) == "dds"]
    scans = (lidar_rows(config) | imu_rows(config)).values()
    return [
        network.peers(section, survey.graph),
        network.command(section, survey.graph, serial=serial),
        *network.fitting(section, survey.graph, [*images, *scans]),
    ]


def _base(config: Config, survey: WireSurvey | None, seconds: float, *, driving: bool, closed: bool) -> list[Finding]:
    """Return the base's findings; none if the wire cannot be joined, which is a finding already."""
    if config.odometry.input == SERIAL:
        if closed:
            return [mobile_base.missing_port(config.odometry.serial_port) or amber("base", NOT_OPENED, STOP_FIRST)]
        return [mobile_base.over_serial(config.odometry.serial_port, seconds, taken=driving)]
    if survey is None:
        return []
    return [mobile_base.over_dds(config, survey.odometry_hz, network.publishes(config.dds, survey.graph, "odom"))]


def _lidars(config: Config, survey: WireSurvey) -> list[Finding]:
    """Return a finding about the lidar of each topic of ready-made scans."""
    rows = lidar_rows(config)
    heard = {name: network.publishes(config.dds, survey.graph, rows[name]) for name in survey.scans}
    return [cameras.lidar(config, name, hz, newest, heard[name]) for name, (hz, newest) in survey.scans.items()]


def _cameras(
    config: Config, mounts: Mounts, statuses: Sequence[RuntimeStatus], seconds: float, *, driving: bool, closed: bool
) -> list[Finding]:
    if closed and _live(config, mounts):
        return [amber("cameras", NOT_OPENED, STOP_FIRST)]
    if driving:
        if not statuses:
            return []
        health = measure_by_diagnostics(config, mounts, statuses)
        return [*map(cameras.camera, health), *cameras.compared_by_the_runtime(statuses[-1])]
    measured = measure_by_opening(config, mounts, seconds)
    if not measured:
        return [green("cameras", "the configuration has none")]
    return [*map(cameras.camera, measured), *_bus(config, mounts, measured)]


def _bus(config: Config, mounts: Mounts, measured: Sequence[CameraMeasurement]) -> list[Finding]:
    live = _live(config, mounts)
    if not live or not any(one.kind == "realsense" for one in measured):
        return []
    return cameras.on_the_bus(live, list_devices())


def _live(config: Config, mounts: Mounts) -> list[Source]:
    """Return the cameras that are devices of this computer, not recordings. Raises ConfigError."""
    return [source for source in camera_sources(mounts, config.cameras) if not source.recording]
