"""Publishes ticks: the rate of each topic, the rows of `/diagnostics`, the live status line of a terminal."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from onboard.counters import Counters
from onboard.navigation.map_tracking import MapTracking, lost_text, to_do
from onboard.navigation.mission import Mission, drives
from onboard.navigation.odometry import NS_PER_MS, OdometryState
from onboard.navigation.scan_odometry import ScanOdometry
from onboard.navigation.wheel_motion import is_moving
from onboard.perception.scan_fusion import NO_SCAN
from onboard.recording.recorder import RecorderStats
from onboard.recording.scene import CLEARS, CODE, clears, drive_row
from onboard.safety import limits
from onboard.safety.limits import Reason
from onboard.state import TickRecord
from onboard.system.log import BackgroundText
from onboard.values import reasons
from onboard.values.clock import NS_PER_S, wall_ns
from onboard.values.interfaces import Diagnostic, InputFault, Outputs
from onboard.values.messages import STOP, CameraHealth
from onboard.values.reasons import JOIN, NO_REASON, Said, rows_in

OK, WARNING, ERROR = 0, 1, 2
LATE_MS = 100
"""Half of the default `odometry.stale_ms`."""
SCANS = 20
"""Scans without a match are reported beyond this number, if they are more than those with a match."""
LATENESS, REASON, AGE = "lateness", "reason_", "_age_ms"
"""Parts of the names of values, for `onboard top`."""

STANDS_S = 2.0
"""A robot on a drive that has not moved for this time says why."""

#   topic           period in ticks (30 Hz)
EVERY_SCAN = 3
EVERY_STATE = 30
EVERY_DIAGNOSTICS = 30
EVERY_CAMERAS = 30
EVERY_DRIVE = 10


class Publisher:
    """Publishes ticks over `Outputs`: transforms every tick, state and drive at changes, others at the rates above.

    An unchanged scan is not published, so that readers detect a dead source by the silence.
    """

    def __init__(self, outputs: Outputs) -> None:
        self._outputs = outputs
        self._state = ""
        self._scan_ns = self._limits_scan_ns = NO_SCAN.stamp_ns
        self._slowest: dict[str, int] = {}
        self._overload = self._standing = ""
        self._moved_ns: int | None = None
        self._mission, self._e_stopped = Mission(), False

    def publish(
        self,
        record: TickRecord,
        counters: Counters,
        cameras: Callable[[], Sequence[CameraHealth]],
        recorder: RecorderStats | None,
        others: Callable[[], Sequence[Diagnostic]] = tuple,
        faults: Sequence[InputFault] = (),
    ) -> None:
        """Publish the topics due after this tick. Raises DriverError.

        cameras, others: return the state of the cameras and further rows of the diagnostics
        faults:          of the inputs; the state names those for which the robot stands
        """
        stamp_ns, number = wall_ns(), counters.ticks - 1
        self._outputs.transforms(record.odometry.pose, record.map_from_odom, stamp_ns)
        if number % EVERY_SCAN == 0:
            self._publish_scans(record, stamp_ns)
        if number % EVERY_STATE == 0:
            self._overload = overload(record)
        others_say = (with_faults(record.state, faults), _lost(record), self._overload)
        state = JOIN.join(filter(None, (*others_say, self._stands(record, number))))
        if state != self._state or number % EVERY_STATE == 0:
            self._state = state
            self._outputs.state(state)
        mission = Mission() if record.after is None else record.after.mission
        e_stopped = record.reason == Reason.E_STOP.value
        changed = e_stopped != self._e_stopped or drive_changed(mission, self._mission)
        if changed or number % EVERY_DRIVE == 0:
            self._outputs.drive(drive_row(record, mission, counters.recoveries, state), stamp_ns)
            self._mission, self._e_stopped = mission, e_stopped
        self._note_slowest(record)
        if number % EVERY_DIAGNOSTICS == 0:
            own = [*rows(record, counters, cameras(), recorder, self._slowest), *others()]
            self._outputs.diagnostics(with_codes(faulty_rows(own, faults)), stamp_ns)
            self._slowest = {}
        if number % EVERY_CAMERAS == 0:
            self._outputs.cameras(stamp_ns)

    def _stands(self, record: TickRecord, number: int) -> str:
        """Return why the robot has not moved for STANDS_S, judged at the rate of the state; "" while it moves."""
        moves = is_moving(record.odometry.twist.v_mps, record.odometry.twist.w_radps)
        if moves or self._moved_ns is None or not drives(record.state):
            self._moved_ns, self._standing = record.inputs.now_ns, ""
        elif number % EVERY_STATE == 0 and record.inputs.now_ns - self._moved_ns >= STANDS_S * NS_PER_S:
            self._standing = standing(record)
        return self._standing

    def _note_slowest(self, record: TickRecord) -> None:
        slowest = self._slowest
        for name, took_ns in record.stage_ns.items():
            if took_ns > slowest.get(name, -1):
                slowest[name] = took_ns
        slowest[LATENESS] = max(slowest.get(LATENESS, 0), record.slot.lateness_ns)

    def _publish_scans(self, record: TickRecord, stamp_ns: int) -> None:
        fused, guarded = record.scan, record.limits_scan
        if fused.stamp_ns != self._scan_ns:
            self._outputs.scan(fused, stamp_ns)
        if guarded is not fused and guarded.stamp_ns != self._limits_scan_ns:
            self._outputs.limits_scan(guarded, stamp_ns)
        self._scan_ns, self._limits_scan_ns = fused.stamp_ns, guarded.stamp_ns


def drive_changed(mission: Mission, before: Mission) -> bool:
    """Return whether `/onboard/drive` must report a mission at once."""
    return any(
        getattr(mission, name) != getattr(before, name)
        for name in ("state", "reason", "asked_ns", "refused_ns", "passed", "paused")
    )


def with_faults(state: str, faults: Sequence[InputFault]) -> str:
    """Return the state as it is published: with the faults for which the robot stands."""
    return JOIN.join([state, *dict.fromkeys(fault.reason for fault in faults if fault.standing)])


def _lost(record: TickRecord) -> Said:
    """Return what the state says of a tracker that does not know the robot's place; "" where it does."""
    return NO_REASON if record.after is None else to_do(record.after.tracking, record.after.localization)


def standing(record: TickRecord) -> Said:
    """Return why a robot on a drive stands, "" if the state or the limits say so already."""
    if record.after is None or record.after.mission.paused or record.reason not in MOVES_ON:
        return NO_REASON
    mission = record.after.mission
    if mission.turning:
        return reasons.TURNS_TO_HEADING.say()
    if mission.arrival.held:
        return reasons.WAITS_FOR_FIX.say()
    return reasons.NO_MOTION_WANTED.say() if record.command == STOP else reasons.BASE_STANDS.say()


def overload(record: TickRecord) -> str:
    """Return what a drive's state says of missed ticks; "" while few are missed, or without a drive."""
    missed = 0 if record.after is None else record.after.limits.missed
    return limits.overload(missed) if drives(record.state) else ""


def faulty_rows(found: Sequence[Diagnostic], faults: Sequence[InputFault]) -> list[Diagnostic]:
    """Return the rows of `/diagnostics`, with the faults in place of the messages of their inputs.

    A row that is worse than its faults keeps its message in front of theirs.
    """
    rows = {row[0]: row for row in found}
    for name in dict.fromkeys(fault.row for fault in faults):
        of = [fault for fault in faults if fault.row == name]
        level = ERROR if any(one.standing and not one.warning for one in of) else WARNING
        _, own_level, own, values = rows.get(name, (name, OK, "", {}))
        said = [own] if own_level > level else []
        rows[name] = (name, max(level, own_level), JOIN.join([*said, *(one.reason for one in of)]), values)
    return list(rows.values())


MOVES_ON = frozenset(
    reason.value
    for reason in (
        Reason.NONE, Reason.SPEED, Reason.ACCELERATION, Reason.ZONE_SLOW, Reason.TIME_TO_CONTACT, Reason.BLIND_FLANK,
        Reason.SPEED_LIMIT, Reason.SPEED_ZONE, Reason.OVERLOAD, Reason.LOOKING,
    )
)  # fmt: skip
"""Reasons that shape a command and do not explain why a robot stands."""


ALWAYS = ("runtime", "command")
"""Rows whose message is a reason even where all is well."""


def with_codes(found: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Return the rows with two more values: the codes of their reasons, and what clears them."""
    coded: list[Diagnostic] = []
    for name, level, message, values in found:
        said = rows_in(message) if level != OK or name in ALWAYS else ()
        more = {CODE: ", ".join(row.code for row in said), CLEARS: clears(said)}
        coded.append((name, level, message, {**values, **{key: text for key, text in more.items() if text}}))
    return coded


def rows(
    record: TickRecord,
    counters: Counters,
    cameras: Sequence[CameraHealth],
    recorder: RecorderStats | None,
    slowest: Mapping[str, int] = MappingProxyType({}),
) -> list[Diagnostic]:
    """Return the rows of `/diagnostics`: runtime, policy, command, inputs, odometry, pose, cameras, recorder.

    slowest: largest lateness and duration of each stage since the last rows [ns]
    """
    found = [_runtime(record, counters, slowest), _policy(counters), _command(record, counters), _inputs(record)]
    if record.after is not None:
        found.append(_odometry(record.after.wheels))
    found.append(_pose(record))
    found += [_camera(camera) for camera in cameras]
    if recorder is not None:
        found.append(_recorder(recorder))
    return found


def _runtime(record: TickRecord, counters: Counters, slowest: Mapping[str, int]) -> Diagnostic:
    """Return the row about the ticks: of each stage the median and the 99th percentile of the run, and the slowest."""
    times = {LATENESS: counters.lateness, **counters.stages}
    values = {
        "ticks": counters.ticks,
        "missed_slots": counters.missed_slots,
        **{f"{name}_p50_ms": round(times[name].quantile_ns(0.5) / NS_PER_MS, 3) for name in times},
        **{f"{name}_p99_ms": round(times[name].quantile_ns(0.99) / NS_PER_MS, 3) for name in times},
        **{f"{name}_max_ms": round(took_ns / NS_PER_MS, 3) for name, took_ns in slowest.items()},
        "delay_error_p99_ms": counters.delay_error.summary_ms()["p99"],
        **{f"fault_{name}": count for name, count in counters.faults.items()},
    }
    if slow := overload(record):
        return ("runtime", WARNING, JOIN.join((record.state, slow)), values)
    return ("runtime", ERROR if record.state.startswith("stopped") else OK, record.state, values)


def _policy(counters: Counters) -> Diagnostic:
    values = {
        "decisions": counters.decisions,
        "deadline_misses": counters.deadline_misses,
        "over_budget": counters.over_budget,
        "memory_resets": counters.memory_resets,
        "decision_p50_ms": counters.decision.summary_ms()["p50"],
        "decision_p99_ms": counters.decision.summary_ms()["p99"],
    }
    late = counters.deadline_misses + counters.over_budget > 0
    return ("policy", WARNING if late else OK, reasons.DECISIONS_LATE.say() if late else "in time", values)


def _command(record: TickRecord, counters: Counters) -> Diagnostic:
    values = {
        "v_mps": round(record.command.v_mps, 3),
        "w_radps": round(record.command.w_radps, 3),
        "wanted_v_mps": record.wanted.v_mps,
        "wanted_w_radps": record.wanted.w_radps,
        "recovery": record.recovery,
        "e_stop": record.inputs.e_stop,
        "obstacle": record.inputs.obstacle,
        **({} if record.inputs.battery is None else {"battery": round(record.inputs.battery, 3)}),
        "speed_limit_mps": record.inputs.speed_limit_mps,
        **{f"{REASON}{name}": count for name, count in counters.reasons.items()},
    }
    return ("command", OK, record.reason, values)


def _inputs(record: TickRecord) -> Diagnostic:
    """Return the row with the age of each input at the tick's start. The rows about each input judge them."""
    inputs, after = record.inputs, record.after
    stamps = {"scan": record.scan.stamp_ns, **{name: frame.stamp_ns for name, frame in inputs.depth.items()}}
    stamps |= {} if inputs.color is None else {"color": inputs.color.stamp_ns}
    stamps |= {} if after is None or after.wheels.fresh_ns is None else {"odometry": after.wheels.fresh_ns}
    received = {name: stamp_ns for name, stamp_ns in stamps.items() if stamp_ns > NO_SCAN.stamp_ns}
    values = {f"{name}{AGE}": round((inputs.now_ns - stamp_ns) / NS_PER_MS, 1) for name, stamp_ns in received.items()}
    return ("inputs", OK, f"{len(values)} heard", values)


def _odometry(state: OdometryState) -> Diagnostic:
    """Return the row about odometry. The runtime cannot distinguish a changed clock from a queue."""
    late_ms = round(state.late_ns / NS_PER_MS)
    values: dict[str, object] = {
        "messages": state.messages,
        "gaps": state.gaps,
        "refused": state.refused,
        "late_ms": late_ms,
    }
    values |= {"clock_sets": state.clock_sets, "jumps": state.reanchored}
    if state.agreement.contradiction:
        return ("odometry", ERROR, state.agreement.contradiction, values)
    if state.refused_ns is not None and state.refused_ns >= (state.arrival_ns or 0):
        return ("odometry", ERROR, state.refusal, values)
    if state.agreement.doubt:
        return ("odometry", WARNING, state.agreement.doubt, values)
    if state.gyro.heard_ns is not None:
        values |= {"imu_used": state.gyro.used, "imu_bias_radps": round(state.gyro.bias_radps, 5)}
    if state.messages == 0:
        return ("odometry", WARNING, reasons.ODOMETRY_NONE.say(), values)
    if late_ms >= LATE_MS:
        return ("odometry", WARNING, reasons.ODOMETRY_LATE.say(ms=late_ms), values)
    if state.gyro.doubt:
        return ("odometry", WARNING, state.gyro.doubt, values)
    return ("odometry", OK, "in time", values)


def _pose(record: TickRecord) -> Diagnostic:
    pose = record.odometry.pose
    values: dict[str, object] = {
        "x_m": round(pose.x_m, 3),
        "y_m": round(pose.y_m, 3),
        "yaw_rad": round(pose.yaw_rad, 3),
        "localized": record.map_from_odom is not None,
    }
    if record.goal_distance_m is not None:
        values["goal_distance_m"] = round(record.goal_distance_m, 3)
    matching = ScanOdometry() if record.after is None else record.after.scan_odometry
    unused = matching.missed + matching.rejected
    if matching.matched + unused:
        values |= {"scans_matched": matching.matched, "scans_missed": matching.missed}
        values |= {"scans_rejected": matching.rejected}
    tracking = MapTracking() if record.after is None else record.after.tracking
    if tracking.newest.points:
        values |= {
            "map_explained": round(tracking.newest.explained, 3),
            "map_through": round(tracking.newest.through, 3),
        }
        values |= {"map_fits": tracking.fits, "map_misses": tracking.misses, "lost": tracking.lost}
    if lost := lost_text(tracking):
        return ("pose", WARNING, lost, values)
    if unlocated := _lost(record):
        return ("pose", WARNING, unlocated, values)
    if record.after is not None and record.after.localization.refusal:
        return ("pose", WARNING, record.after.localization.refusal, values)
    if unused > max(SCANS, matching.matched):
        return ("pose", WARNING, reasons.SCANS_UNMATCHED.say(), values)
    return ("pose", OK, "localized" if record.map_from_odom is not None else "odometry only", values)


def _camera(camera: CameraHealth) -> Diagnostic:
    values = {"frames": camera.frames, "restarts": camera.restarts, **camera.detail}
    return (f"camera {camera.camera}", OK if camera.working else ERROR, camera.reason or "working", values)


def _recorder(stats: RecorderStats) -> Diagnostic:
    values = {
        "written": stats.written,
        "dropped": stats.dropped,
        "bytes": stats.bytes,
        "queued": stats.queued,
        "file": str(stats.file),
    }
    if stats.stopped:
        return ("recorder", ERROR, stats.stopped, values)
    if stats.dropped:
        return ("recorder", WARNING, reasons.RECORDING_DROPPED.say(why=stats.last_problem or "queue full"), values)
    return ("recorder", OK, "recording", values)


# ---- The live status line of a terminal

REFRESH_S = 0.2
CLEAR_LINE = "\r\x1b[K"


class StatusLine:
    """Keeps the newest tick. A task next to the runtime writes its status over the last line of a terminal."""

    def __init__(self) -> None:
        self._newest: tuple[TickRecord, Counters] | None = None

    def tick(self, record: TickRecord, counters: Counters) -> None:
        """Keep the tick."""
        self._newest = record, counters

    async def show(self, terminal: BackgroundText) -> None:
        """Write the line every REFRESH_S until cancelled; a final newline keeps the last line."""
        try:
            while True:
                if self._newest is not None:
                    width = shutil.get_terminal_size().columns - 1
                    terminal.write(CLEAR_LINE + status_line(*self._newest)[:width])
                    terminal.flush()
                await asyncio.sleep(REFRESH_S)
        finally:
            terminal.write("\n")


def status_line(record: TickRecord, counters: Counters) -> str:
    """Return the status of one tick as a line."""
    goal = "" if record.goal_distance_m is None else f"  goal {record.goal_distance_m:5.2f} m"
    command = f"  v {record.command.v_mps:+.2f} m/s w {record.command.w_radps:+.2f} rad/s ({record.reason})"
    decision = counters.decision.summary_ms()
    missed = f"missed {counters.missed_slots} slots, {counters.deadline_misses} decisions"
    timing = f"  decision {decision['p50']:.0f} ms, {missed}"
    blind = int((~record.scan.seen).sum())
    return f"{record.state}{goal}{command}{timing}  blind {blind} bins"
