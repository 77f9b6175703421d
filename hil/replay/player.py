"""The runtime over a recording: devices, scans between decisions, and timing come from the file.

The policy decides again and its decision is compared. The recorded action is applied, so that one differing action
does not change all later ticks. A decision that was late or failed on the robot is late or failed here too.
"""

from __future__ import annotations

from dataclasses import replace

from onboard.assembly.robot import build_rigs, robot_of
from onboard.config.config import Config, ScanSection
from onboard.config.mounts import Mounts
from onboard.config.plant_model import Plant
from onboard.perception.building.occupancy_grid import OccupancyGrid
from onboard.perception.height_coverage import Coverage
from onboard.perception.obstacle_memory import Track
from onboard.perception.scan_fusion import Rig, ScanMemory
from onboard.policy.inference import InferenceResult, InlineInference
from onboard.recording.tick_message import has_images, only_with_images
from onboard.runtime import Runtime
from onboard.safety.keepout_zones import MapZones
from onboard.state import RobotState, TickRecord
from onboard.values.interfaces import Policy
from onboard.values.messages import Decision, Inputs, Memory, Observation, Pose, Scan, Twist

HISTORY, NO_IMAGES = "scan.history above 1", "images missing"
"""Reasons why a scan of the policy cannot be fused again."""


def unfused_reason(config: Config, tick: TickRecord) -> str | None:
    """Return why the scans of a decision cannot be fused again, "" if they can, None without a decision or a fusion."""
    sections = [one for one in (config.scan, config.own_scan) if one is not None and one.uses_cameras]
    if tick.sensed is None or not sections:
        return None
    return next((why for why in (_unfused_reason(section, tick) for section in sections) if why), "")


def _unfused_reason(section: ScanSection, tick: TickRecord) -> str:
    """Return the reason why a tick's scan cannot be fused again, or ""."""
    if section.history > 1:
        return HISTORY  # images between decisions are not recorded
    return "" if has_images(tick) else NO_IMAGES


class Player:
    """One session's runtime. Play its ticks in order; after a gap continue from a keyframe.

    own_actions: apply the actions of this replay, not the recorded actions
    zones:       zones of the map
    building:    the map of the building
    """

    def __init__(
        self, config: Config, mounts: Mounts, plant: Plant, policy: Policy, *, own_actions: bool = False,
        zones: MapZones | None = None, building: OccupancyGrid | None = None,
    ) -> None:  # fmt: skip
        self._devices = RecordedDevices(policy, own_actions=own_actions)
        rig, limits_rig = build_rigs(config, mounts)
        scanner = RecordedScanner(rig, self._devices, limits=False)
        limits_scanner = None if limits_rig is None else RecordedScanner(limits_rig, self._devices, limits=True)
        robot = robot_of(config, (scanner, limits_scanner), plant, policy, zones, building)
        self._runtime = Runtime(robot, self._devices, self._devices, self._devices, self._devices)

    def begin(self, state: RobotState) -> None:
        """Continue from a state."""
        self._runtime.state = state

    def play(self, tick: TickRecord) -> TickRecord:
        """Run the runtime's tick on a recorded tick. The decision in the result is that of this replay's policy."""
        self._devices.now = tick
        replayed = self._runtime.tick(tick.slot)
        if replayed.acted is None:
            return replayed
        return replace(replayed, acted=replace(replayed.acted, decision=self._devices.decided))


class RecordedDevices:
    """Clock, inbox, inference and drive of a replay; they give the values of the played tick."""

    now: TickRecord

    def __init__(self, policy: Policy, *, own_actions: bool = False) -> None:
        self._inline = InlineInference(policy, self.now_ns)
        self._own_actions = own_actions
        self.decided: Decision | None = None

    def now_ns(self) -> int:
        """Return the time of the tick."""
        return self.now.slot.start_ns

    async def sleep_until(self, deadline_ns: int) -> None:
        """Return immediately: the recording has the times of ticks."""

    def hold_until(self, deadline_ns: int) -> None:
        """Return at once, likewise."""

    def take(self, now_ns: int) -> Inputs:
        """Return the inputs of the tick."""
        self.decided = None
        return only_with_images(self.now.inputs)

    def submit(self, number: int, observation: Observation, memory: Memory) -> bool:
        """Decide now."""
        return self._inline.submit(number, observation, memory)

    def poll(self) -> InferenceResult | None:
        """Return the due decision with the current action, None if it was late."""
        result, acted = self._inline.poll(), self.now.acted
        if result is None:
            return None
        if self._own_actions and (acted is None or acted.number != result.number):  # not due in this tick on the robot
            self.decided = result.decision
            return result
        if acted is None or (acted.decision is None and not acted.fault):
            return None
        if acted.decision is None:
            return InferenceResult(result.number, None, None, error=acted.fault, elapsed_ns=acted.elapsed_ns)
        self.decided = in_force = result.decision
        if in_force is not None and not self._own_actions:
            in_force = replace(in_force, action=acted.decision.action, own=acted.decision.own)
        return InferenceResult(result.number, in_force, result.memory, error=result.error, elapsed_ns=acted.elapsed_ns)

    def send(self, command: Twist) -> None:
        """Send nothing."""

    def close(self) -> None:
        """Do nothing."""


class RecordedScanner:
    """Fuses scans from recorded images; without images it returns the recorded scan."""

    def __init__(self, rig: Rig, devices: RecordedDevices, *, limits: bool) -> None:
        self._rig, self._devices, self._limits = rig, devices, limits

    @property
    def coverage(self) -> Coverage | None:
        """The heights that the rig's cameras see ahead."""
        return self._rig.coverage

    def scan(self, inputs: Inputs, pose: Pose, memory: ScanMemory) -> tuple[Scan, ScanMemory]:
        """Return the scan of the played tick."""
        tick = self._devices.now
        if not self._rig.section.uses_cameras or not _unfused_reason(self._rig.section, tick):
            return self._rig.scan(inputs, pose, memory)
        recorded = tick.limits_scan if self._limits else tick.scan
        seen = recorded.seen
        recorded = replace(
            recorded,
            from_m=self._rig.sees_from(seen),
            heights_m=self._rig.heights_m(seen),
            memory_m=self._rig.memory_m,
        )
        stamp_ns = recorded.stamp_ns
        if self._rig.section.topic:  # the scan may have the lidar's stamp
            frames = [frame for name, frame in tick.inputs.depth.items() if name in self._rig.views]
            whole = len(frames) == len(self._rig.views)
            stamp_ns = min(frame.stamp_ns for frame in frames) if whole else memory.stamp_ns
        return recorded, replace(memory, stamp_ns=stamp_ns, cameras={})  # no image to move to now

    def moved(self, scan: Scan, memory: ScanMemory, track: Track) -> Scan | None:
        """Return the moved images of the played tick; those of a decision are there, the others' scan was recorded."""
        tick = self._devices.now
        if not _unfused_reason(self._rig.section, tick) or tick.moved_scan is None:
            return self._rig.moved(scan, memory, track)
        return replace(tick.moved_scan, from_m=scan.from_m, heights_m=scan.heights_m, memory_m=scan.memory_m)
