"""Builds the robot from its configuration. It chooses cameras, base and wire."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import structlog

from onboard.assembly.config_warnings import (
    check_heights,
    check_remaps,
    check_staleness,
    check_topics,
    config_warnings,
)
from onboard.assembly.in_effect import in_effect
from onboard.assembly.inbox import DeviceInbox, GuardedInbox, dds_inputs_of
from onboard.assembly.kernels import COMPILE_S, prepare_kernels
from onboard.assembly.policies import MAPPED, WITHOUT_MODEL, check_fallback, check_timing, policy_maker, require_engine
from onboard.assembly.robot import (
    build_rigs,
    building_of,
    check_reach,
    lasers_of,
    robot_of,
    session_of,
    used_mounts,
    zones_of,
)
from onboard.assembly.taken_map import NewerMap, take_map
from onboard.assembly.taken_mounts import await_published, take_mounts
from onboard.config.config import CamerasSection, Config, RatesSection
from onboard.config.mounts import Mounts, load_mounts, note_taken
from onboard.config.plant_model import load_plant
from onboard.config.pretrained import model_path
from onboard.counters import Counters
from onboard.drivers.dds.camera_input import DdsColorCamera, DdsDepthCamera
from onboard.drivers.dds.discovery import Peers
from onboard.drivers.dds.domain import hold_domain
from onboard.drivers.dds.participant import Wire
from onboard.drivers.dds.robot_link import Claim, DdsDrive, DdsInputs, DdsOutputs
from onboard.drivers.dds.security import check_enclave
from onboard.drivers.dds.sole_writer import PublisherNames, PublisherWatch, SoleReader
from onboard.drivers.dds.topics import check_imu_source, check_names, check_scan_source, domain_id, ros_topic, topic
from onboard.drivers.kobuki_base import KobukiBase
from onboard.drivers.realsense.cameras import camera_sources, check_cameras
from onboard.drivers.realsense.cameras import open_cameras as open_realsense
from onboard.drivers.realsense.device import read_intrinsics, require_library
from onboard.health.monitor import Monitor
from onboard.navigation.mission import State
from onboard.perception.building.occupancy_grid import OccupancyGrid
from onboard.perception.scan_fusion import reach_m
from onboard.policy.fallback import WithFallback
from onboard.policy.inference import InferenceThread
from onboard.policy.manifest import load_manifest
from onboard.recording.planned_path import PlannedPath
from onboard.recording.recorder import Recorder
from onboard.recording.retention import check_usable
from onboard.recording.scene import Scene
from onboard.recording.tick_writer import TickRecorder
from onboard.runtime import Listener, Runtime
from onboard.safety import keepout_zones
from onboard.service import last_pose
from onboard.service.image_acks import UsedImages
from onboard.service.input_pace import InputPaces, watched
from onboard.service.input_watch import InputWatch, causes
from onboard.service.publisher import Publisher, StatusLine
from onboard.service.readiness import await_machine, base_to_come
from onboard.service.systemd import Notifier, Service, StandingInbox, note_driven
from onboard.service.viewers import Viewers
from onboard.state import Robot, TickRecord
from onboard.system import realtime
from onboard.system.log import BackgroundText
from onboard.system.signals import Signals, run_beside
from onboard.values import reasons
from onboard.values.clock import NS_PER_S, Clock, MonotonicClock, wall_ns
from onboard.values.errors import ConfigError, DriverError, MissingExtraError, OnboardError
from onboard.values.interfaces import ColorCamera, DepthCamera, Diagnostic, Drive, Inbox, InputFault, Policy

log = structlog.get_logger()

Closable = TypeVar("Closable", bound="_Closes")

LEAD_MS = 8.0
"""A tick in which a decision acts begins this early and sends on time: more than its work, at most half a tick."""
SWITCH_INTERVAL_S = 0.0005
"""GIL switch interval: the tick waits at most this long for the GIL. Python's default of 5 ms would delay ticks."""


HEARD_S = 0.5
"""How long a starting tracker listens for another localisation, which keeps its last pose for late readers."""


def check_files(config: Config, file: Path | None = None) -> None:
    """Check all files of the configuration, without devices. Raises OnboardError with a line for each mistake.

    file: where the configuration is from; a line about one of its keys begins with it
    """
    mistakes: list[OnboardError] = []
    for check in (
        _check_wire,
        check_staleness,
        _check_mounts,
        _check_plant,
        zones_of,
        building_of,
        _check_tracker,
        _check_policy,
    ):
        try:
            check(config)
        except OnboardError as error:
            mistakes.append(error)
    own = tuple(f"{table}." for table in Config.model_fields) if file is not None else ()
    lines = [line for error in mistakes for line in str(error).splitlines()]
    if len(mistakes) == 1 and not any(line.startswith(own) for line in lines):
        raise mistakes[0]
    if mistakes:
        raise ConfigError("\n".join(dict.fromkeys(f"{file}: {one}" if one.startswith(own) else one for one in lines)))


def _check_wire(config: Config) -> None:
    check_names(config.dds)
    domain_id(config.dds)
    if config.odometry.imu:
        check_imu_source(config.odometry.imu)
    elif config.odometry.imu_rpy_deg is not None:
        raise ConfigError("odometry.imu_rpy_deg has no effect without odometry.imu: set both keys, or neither")
    for table, section in {"scan": config.scan, "limits_scan": config.limits_scan}.items():
        for name in section.sources if section is not None else ():
            check_scan_source(table, name)
    lasers_of(config)


def _check_tracker(config: Config) -> None:
    if config.map.tracker and "amcl_pose" in config.dds.remap:
        raise ConfigError("dds.remap.amcl_pose names a localisation, but map.tracker = true: remove one of the two")


def _check_mounts(config: Config) -> None:
    mounts = load_mounts(config.robot.mounts)
    rig, _ = build_rigs(config, mounts)
    running = {name: view for name, view in rig.views.items() if config.cameras.source_of(name) != "none"}
    check_fallback(config, replace(rig, views=running).looks)
    _check_sources(mounts, config.cameras)
    check_remaps(config, mounts)
    check_topics(config, mounts)
    check_heights(mounts)
    for name in mounts.depth:
        if config.cameras.source_of(name) == "dds":
            topic(f"{name}/depth/image")  # refuses a name that no topic can hold
    for source in camera_sources(mounts, config.cameras):
        if source.recording:
            read_intrinsics(source)


def _check_plant(config: Config) -> None:
    check_reach(config, load_plant(config.robot.plant))


def _check_policy(config: Config) -> None:
    if config.policy.model == MAPPED and config.map.file is None:
        raise ConfigError("policy.model: mapped needs the map of the building: set map.file")
    if config.policy.model not in WITHOUT_MODEL:
        check_timing(config, load_manifest(model_path(config.policy.model)))


def check_machine(config: Config) -> list[str]:
    """Check what a run needs of this machine; return the missing devices that the operator may still plug in.

    Opens the DDS domain for this process, as a run does, but writes nothing. Raises OnboardError with one line.
    """
    _check_equipment(config)
    hold_domain(domain_id(config.dds), config.dds)
    take_mounts(config)
    take_map(config)
    return base_to_come(config.odometry)


def _check_equipment(config: Config) -> None:
    """Raise OnboardError for missing keys, libraries or disk space, for which a run does not wait."""
    realtime.check_core(config.rates.core)
    check_enclave(config.dds.security)
    require_engine(config)
    if camera_sources(load_mounts(config.robot.mounts), config.cameras):
        require_library()
    if config.odometry.input == "serial" and find_spec("serial") is None:
        raise MissingExtraError("pyserial", "serial")
    if config.record.enabled:
        check_usable(config.record.directory)


class _Closes(Protocol):
    def close(self) -> None: ...


class Held(contextlib.ExitStack):
    """All that a run has opened. It is closed in reverse order."""

    def closing(self, opened: Closable) -> Closable:
        """Close a thing when the run ends; return it."""
        return self.enter_context(contextlib.closing(opened))


class RobotInputs(NamedTuple):
    """The inputs of a run, and what watches their publishers. base: a serial base, None over DDS."""

    dds: DdsInputs
    cameras: Sequence[DepthCamera | ColorCamera | None]
    base: KobukiBase | None
    peers: Peers
    watch: PublisherWatch
    guard: GuardedInbox
    inbox: DeviceInbox


def run_robot(config: Config, seconds: float | None, terminal: BackgroundText | None) -> dict[str, Any]:
    """Drive until a signal or for `seconds`; return the counts of the run. Raises OnboardError if it cannot start.

    A service waits for the network and the base. A run on a terminal fails at once without them.
    """
    note_taken(config.robot.mounts)
    check_files(config)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    with Held() as held:
        signals, notifier = held.enter_context(Signals()), held.enter_context(Notifier())
        _await_equipment(config, notifier)
        plant, building = load_plant(config.robot.plant), building_of(config)
        mounts = load_mounts(config.robot.mounts)
        check_cameras(mounts, config.cameras)
        notifier.send(f"STATUS=preparing {config.policy.name}")
        note_driven(config)
        wire = held.closing(Wire(config.dds))
        claim = held.closing(Claim(wire, _robot_name(config)))
        _log_configuration(config)
        inference = held.closing(InferenceThread(policy_maker(config, plant, building)))
        log.info("preparing", policy=config.policy.name)
        inference.begin()
        rigs = build_rigs(config, mounts)
        prepare_kernels(config, rigs, signals)
        policy = inference.start(COMPILE_S)
        dds_inputs = dds_inputs_of(config, wire)
        dds_inputs.refuse_second_localisation(HEARD_S)
        claim.confirm()  # after the preparation, which takes part of the time that other hosts have to answer
        clock = held.closing(MonotonicClock())
        # Before the base, so that the last comparison waits until the base has its last command.
        monitor = held.closing(Monitor(config, mounts, plant))
        base, drive = _open_base(config, wire)
        held.callback(drive.close)
        inputs = _open_inputs(config, mounts, wire, dds_inputs, base, held)
        robot = robot_of(config, rigs, plant, policy, zones_of(config), building)
        scene = partial(Scene, config, robot.zones, building, PlannedPath(config, building))
        # Last, so that repeated failed starts create no files, which would delete older recordings.
        recorder = _open_recorder(config, building, clock.now_ns(), held)
        ticks = TickRecorder(recorder, config.dds, mounts, reach_m(rigs[0]), scene()) if recorder else None
        outputs = DdsOutputs(wire, used_mounts(config, mounts), config.robot.name, reach_m(rigs[0]))
        held.callback(_publish_end, outputs)
        viewers = held.closing(Viewers(wire, scene(), ("map",) if config.map.topic else ()))
        others = [monitor.diagnostic, realtime.settled(config.rates.core).diagnostic, *_chosen_rows(robot, policy)]
        watches, rows, faults = _watches(config, inputs)
        if config.map.topic and building is not None:
            faults = [*faults, held.closing(NewerMap(wire, building)).faults]
        publisher = TickPublisher(Publisher(outputs), inputs.inbox, [*rows, *others], recorder, ticks, faults)
        line = StatusLine()
        used = _used_images(config, wire, clock, inputs.cameras)
        service = held.enter_context(Service(notifier, inputs.inbox.cameras))
        inbox: Inbox = StandingInbox(inputs.inbox, service)
        tracked = building if config.map.tracker else None
        if tracked is not None:
            inbox = last_pose.Resumed(inbox, last_pose.load(config, tracked))
        listeners = (*used, *watches, publisher, viewers, line, monitor, service)
        runtime = Runtime(robot, clock, inbox, inference, drive, listeners)
        if tracked is not None:
            held.callback(lambda: last_pose.save(config, tracked, runtime.state, plant))
        log.info("ready", robot=config.robot.name, domain=wire.domain, policy=policy.name)
        gc.collect()
        gc.freeze()
        dds_inputs.drain_states()
        signals.stop_with(runtime.stop)
        asyncio.run(_until_stopped(runtime, lead_ns(config.rates), seconds, line, terminal))
    return _result(config, policy, runtime, monitor, recorder)


def _await_equipment(config: Config, notifier: Notifier) -> None:
    """Check this machine; wait for what a service waits for, and for mounts and map that are published."""
    _check_equipment(config)
    realtime.leave_core(config.rates.core)
    if notifier.managed:
        await_machine(config, notifier)
    hold_domain(domain_id(config.dds), config.dds)
    await_published(config, notifier)


def _open_inputs(
    config: Config, mounts: Mounts, wire: Wire, dds_inputs: DdsInputs, base: KobukiBase | None, held: Held
) -> RobotInputs:
    depth, color = open_cameras(config, mounts, lambda: wire)
    peers = Peers(wire, () if base is None else ("odom",))
    watch = _publisher_watch(wire, peers, dds_inputs, (*depth, color), base, peers.faults)
    commands = ros_topic(config.dds, "cmd_vel") if base is None else ""
    guard = GuardedInbox(dds_inputs, peers, refuse=config.dds.other_drivers == "refuse", commands=commands)
    inbox = held.closing(DeviceInbox(guard, depth, color, base, config.cameras.unchanged_m, watch))
    return RobotInputs(dds_inputs, (*depth, color), base, peers, watch, guard, inbox)


def _watches(
    config: Config, inputs: RobotInputs
) -> tuple[Sequence[Listener], Sequence[Callable[[], Diagnostic]], Sequence[Callable[[], Sequence[InputFault]]]]:
    """Return the listeners that watch the inputs, and what returns their rows of `/diagnostics` and their faults."""
    withheld = lambda: (*inputs.watch.faults(), *inputs.dds.faults())  # noqa: E731
    dropped, blind = inputs.dds.dropped, inputs.dds.blind
    arrivals = InputWatch(config, inputs.inbox.cameras, inputs.peers.publishes, dropped, blind, withheld)
    paces = InputPaces(watched(config, _sole_readers(inputs.dds, inputs.cameras, inputs.base)))
    faults = [inputs.watch.faults, inputs.dds.faults, paces.faults, inputs.guard.faults, arrivals.faults]
    return (paces, arrivals), [*arrivals.rows(), inputs.guard.diagnostic], faults


def _chosen_rows(robot: Robot, policy: Policy) -> Iterator[Callable[[], Diagnostic]]:
    """Yield the rows of `/diagnostics` of what only some robots have: a policy with a fallback, zones of a map."""
    if isinstance(policy, WithFallback):
        yield policy.diagnostic
    if robot.zones is not None:
        masks = keepout_zones.diagnostic(robot.zones)
        yield lambda: masks


def _log_configuration(config: Config) -> None:
    """Log the settings in effect, and the warnings about them."""
    for name, text in in_effect(config).items():
        log.info("in_effect", **{name: text})
    for doubt in config_warnings(config):
        log.warning("configuration", doubt=doubt)


def _result(
    config: Config, policy: Policy, runtime: Runtime, monitor: Monitor, recorder: Recorder | None
) -> dict[str, Any]:
    """Return the counts of a run, for `onboard run --json`."""
    return {
        "robot": config.robot.name,
        "policy": policy.name,
        "state": runtime.state.mission.text(),
        **runtime.counters.summary(),
        "health": monitor.health.plain(),
        "recording": None if recorder is None else str(recorder.stats().file),
        "recording_dropped": 0 if recorder is None else recorder.stats().dropped,
    }


def lead_ns(rates: RatesSection) -> int:
    """Return how much earlier a tick begins in which a decision acts [ns]."""
    return round(min(LEAD_MS / 1e3, 0.5 / rates.control_hz) * NS_PER_S)


async def _until_stopped(
    runtime: Runtime, early_ns: int, seconds: float | None, line: StatusLine, terminal: BackgroundText | None
) -> None:
    if seconds is not None:
        asyncio.get_running_loop().call_later(seconds, runtime.stop)
    if terminal is None:
        await runtime.run(early_ns)
    else:
        await run_beside(runtime.run(early_ns), line.show(terminal))


@contextlib.contextmanager
def listening(config: Config) -> Iterator[DeviceInbox]:
    """Yield the robot's inputs, without anything that sends commands or publishes. Raises OnboardError."""
    note_taken(config.robot.mounts)
    check_files(config)
    _check_equipment(config)
    hold_domain(domain_id(config.dds), config.dds)
    take_mounts(config)
    mounts = load_mounts(config.robot.mounts)
    with Held() as held:
        wire = held.closing(Wire(config.dds))
        base = KobukiBase(config.odometry.serial_port) if config.odometry.input == "serial" else None
        if base is not None:
            held.callback(base.close)
        depth, color = open_cameras(config, mounts, lambda: wire)
        dds_inputs = dds_inputs_of(config, wire)
        watch = _publisher_watch(wire, Peers(wire), dds_inputs, (*depth, color), base)
        yield held.closing(DeviceInbox(dds_inputs, depth, color, base, config.cameras.unchanged_m, watch))


def _publish_end(outputs: DdsOutputs) -> None:
    """Publish a last state, so that no reader sees a driving robot after the end."""
    try:
        outputs.state(f"{State.STOPPED.value}: {reasons.RUNTIME_ENDED.say()}")
    except DriverError as error:
        log.warning("last_state_not_sent", error=str(error))


class TickPublisher:
    """Publishes and records every tick."""

    def __init__(
        self,
        publisher: Publisher,
        inbox: DeviceInbox,
        others: Sequence[Callable[[], Diagnostic]],
        recorder: Recorder | None,
        ticks: TickRecorder | None,
        faults: Sequence[Callable[[], Sequence[InputFault]]] = (),
    ) -> None:
        self._publisher = publisher
        self._inbox = inbox
        self._others = tuple(others)
        self._recorder = recorder
        self._ticks = ticks
        self._faults = tuple(faults)

    def tick(self, record: TickRecord, counters: Counters) -> None:
        """Publish the due topics, then queue the tick for the recording."""
        stats = self._recorder.stats() if self._recorder else None
        faults = causes([fault for found in self._faults for fault in found()])
        others = lambda: [row() for row in self._others]  # noqa: E731
        self._publisher.publish(record, counters, self._inbox.cameras, stats, others, faults)
        if self._ticks is not None:
            self._ticks.record(record)


def _check_sources(mounts: Mounts, section: CamerasSection) -> None:
    unknown = [name for name in section.sources if name not in mounts.depth]
    if unknown:
        raise ConfigError(f"cameras.sources: unknown camera {unknown[0]}, {mounts.path} has {', '.join(mounts.depth)}")


def _open_base(config: Config, wire: Wire) -> tuple[KobukiBase | None, Drive]:
    if config.odometry.input == "serial":
        base = KobukiBase(config.odometry.serial_port)
        return base, base
    return None, DdsDrive(wire, config.rates.control_hz)


def open_cameras(
    config: Config, mounts: Mounts, wire: Callable[[], Wire]
) -> tuple[Sequence[DepthCamera], ColorCamera | None]:
    """Open the cameras of all sources: depth cameras, and the colour camera. wire: called for those over DDS.

    Raises ConfigError, InputError (a recording), DriverError (the wire), MissingExtraError.
    """
    section: CamerasSection = config.cameras
    decoder = ThreadPoolExecutor(1, "decode")  # no more: the tick needs the other cores
    depth: list[DepthCamera] = [
        DdsDepthCamera(wire(), mount, section, decoder)
        for name, mount in mounts.depth.items()
        if section.source_of(name) == "dds"
    ]
    devices, color = open_realsense(mounts, section)
    depth += devices
    for name in mounts.depth:
        if (source := section.source_of(name)) != "none" and name not in {camera.name for camera in depth}:
            raise ConfigError(f"cameras: no driver opens {name}, whose source is {source}")
    if section.color == "dds":
        return depth, DdsColorCamera(wire(), section, decoder)
    if color is None and section.color != "none":
        raise ConfigError(f"cameras: no driver opens the colour camera, whose source is {section.color}")
    return depth, color


def _sole_readers(
    inputs: DdsInputs, cameras: Sequence[DepthCamera | ColorCamera | None], base: KobukiBase | None
) -> list[SoleReader]:
    """Return the readers of the inputs that are used: with a serial base no odometry of DDS is."""
    sent = [camera.reader for camera in cameras if isinstance(camera, (DdsDepthCamera, DdsColorCamera))]
    return [*inputs.sole_readers(odometry=base is None), *sent]


def _publisher_watch(
    wire: Wire,
    peers: Peers,
    inputs: DdsInputs,
    cameras: Sequence[DepthCamera | ColorCamera | None],
    base: KobukiBase | None,
    wrong: Callable[[], Sequence[InputFault]] = tuple,
) -> PublisherWatch:
    return PublisherWatch(_sole_readers(inputs, cameras, base), PublisherNames(wire, peers), wrong)


def _used_images(
    config: Config, wire: Wire, clock: Clock, cameras: Sequence[DepthCamera | ColorCamera | None]
) -> Sequence[Listener]:
    """Return the listener that publishes the used DDS images to `onboard-hil target`; none without such images."""
    sent = {camera.name: camera for camera in cameras if isinstance(camera, (DdsDepthCamera, DdsColorCamera))}
    return (UsedImages(wire, config.robot.name, clock, sent),) if sent else ()


def _open_recorder(config: Config, building: OccupancyGrid | None, now_ns: int, held: Held) -> Recorder | None:
    if not config.record.enabled:
        return None
    recorder = Recorder(
        config.record, config.robot.name, session_of(config, building), wall_ns=wall_ns(), now_ns=now_ns
    )
    for repaired in recorder.stats().repaired:
        log.warning("recording_repaired", file=str(repaired.path), problem=repaired.problem)
    return held.closing(recorder)


def _robot_name(config: Config) -> str:
    namespace = config.dds.namespace.strip("/")
    return f"{namespace}/{config.robot.name}" if namespace else config.robot.name
