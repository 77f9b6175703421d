"""The table of faults: what is done to the robot, what must come of it, within how long, and which rule says so."""

from __future__ import annotations

import math
from dataclasses import replace

from hil.reliability.faults import expectations
from hil.reliability.faults.expectations import During, Must, Then
from hil.reliability.faults.fault import Fault, Need
from hil.reliability.faults.inject import engine, inputs, sensors
from hil.reliability.faults.inject.schedule import Scene
from hil.reliability.faults.inject.sensors import ahead, topics
from hil.reliability.faults.invariants import GRACE_TICKS
from onboard.values.clock import NS_PER_S

# ---- The faults of what people send and what comes long after they sent it. `table.py` has the others

LATE_MESSAGES: tuple[Fault, ...] = (
    Fault(
        "teleop_late", "an operator's commands come a second after they were written",
        Must(During.STANDS, reasons=("teleop",), checks=(expectations.late_operator_holds, expectations.no_contact)),
        "drivers/dds_teleop.py: too late to drive by, it holds the robot; then R3 of limits.py",
        lasts_s=4.0, process="late operator",
    ),
    Fault(
        "goal_late", "a goal comes that was written when the one that is driven to was",
        Must(During.DRIVES, checks=(expectations.goal_refused, expectations.no_contact)),
        "goals.py: one that was long under way is refused", lasts_s=6.0, process="late goal",
    ),
)  # fmt: skip


# ---- The faults of what the robot sees with: cameras, and scans that come ready-made. `table.py` has the others


def _all(scene: Scene) -> frozenset[str]:
    return frozenset(scene.mounts.depth)


def _front(scene: Scene) -> frozenset[str]:
    return ahead(scene.mounts)


def _topics(scene: Scene) -> frozenset[str]:
    return topics(scene.config)


CAMERA, SCAN = "cameras.stale_ms", "limits.scan_stale_ms"
HELD_BACK = ("blind_ahead", "zone_stop", "stale_scan")
BLIND = Must(During.NOT_FORWARD, timeouts=(CAMERA,), reasons=HELD_BACK, checks=(expectations.no_contact,), ahead=True)
TOO_NEAR = Must(
    During.NOT_FORWARD, timeouts=(CAMERA,), reasons=(*HELD_BACK, "remembered"),
    checks=(expectations.no_contact,), ahead=True,
)  # fmt: skip
SIGHTLESS = Must(
    During.STANDS, timeouts=(SCAN,), reasons=("stale_scan", "blind_ahead"), checks=(expectations.no_contact,)
)
ON = Must(During.DRIVES, checks=(expectations.no_contact,))
IMAGES, SCANS = (Need.IMAGES,), (Need.SCANS,)
NEXT_SCAN_TICKS = 2
"""A ready-made scan comes in every second tick here."""
AT_NEXT_SCAN = Must(
    During.NOT_FORWARD, ticks=GRACE_TICKS + NEXT_SCAN_TICKS, reasons=(*HELD_BACK, "remembered"),
    checks=(expectations.no_contact,), ahead=True,
)  # fmt: skip
NO_SCAN = Must(During.STANDS, timeouts=(SCAN,), reasons=("stale_scan",), checks=(expectations.no_contact,))

SOON = {"recovery": {"blocked_s": 2.2, "backward_s": 1.0, "cool_down_s": 0.1}}
"""So that a robot before something too near to be seen has backed off within the time in which it must go on: what was
there for as long as this fault holds it for seconds (`nearby.BRIEF_NS`)."""

FORGETFUL = {"limits": {"remember_s": 1.0}}
"""So that places which noise has put again and again where no camera looks are forgotten within that time."""

SENSES: tuple[Fault, ...] = (
    # ---- cameras
    Fault(
        "camera_gone", "the cameras ahead send nothing", BLIND, "R12 of limits.py: no way into a blind sector",
        lambda scene: sensors.Gone(_front(scene)), IMAGES,
    ),
    Fault(
        "cameras_gone", "all depth cameras send nothing", SIGHTLESS, "R5 of limits.py: a scan that is too old",
        lambda scene: sensors.Gone(_all(scene)), IMAGES,
    ),
    Fault(
        "image_frozen", "the cameras ahead send one frame again and again", BLIND,
        "drivers/dds_camera.py: a frame that is not stamped later is no new one; then R12",
        lambda scene: sensors.Frozen(_front(scene)), IMAGES,
    ),
    Fault(
        "image_stuck", "the cameras ahead send one picture with stamps that go on",
        Must(
            During.NOT_FORWARD, timeouts=(CAMERA, SCAN), reasons=HELD_BACK, checks=(expectations.no_contact,),
            ahead=True
        ),
        "unchanged.py: a picture that stays the same over a way is none; then R12",
        lambda scene: sensors.Frozen(_front(scene), stamped=True), (Need.IMAGES, Need.ALL_IMAGES),
    ),
    Fault(
        "image_late", "the pictures of the cameras ahead are under way for half a second longer, at their pace", BLIND,
        "drivers/sender_clock.py: as old as its stamp says; then R12",
        lambda scene: sensors.Late(_front(scene)), IMAGES,
    ),
    Fault(
        "depth_zero", "every pixel ahead is 0, as before a covered lens", BLIND, "images.py, covered(); then R12",
        lambda scene: sensors.Painted(_front(scene), scene.mounts, 0.0), IMAGES,
    ),
    Fault(
        "depth_zero_all", "every pixel of all cameras is 0", SIGHTLESS, "images.py, covered(); then R5",
        lambda scene: sensors.Painted(_all(scene), scene.mounts, 0.0), IMAGES,
    ),
    Fault(
        "depth_near", "every pixel ahead is at 0.11 m", TOO_NEAR,
        "R9 or R20 of limits.py: the stop zone, or what is too near to be seen; until it has backed off",
        lambda scene: sensors.Painted(_front(scene), scene.mounts, sensors.NEAR_M), IMAGES,
        sections=SOON,
    ),
    Fault(
        "depth_noise", "every pixel of all cameras is drawn from all that it can be",
        Must(
            During.SLOWS, timeouts=(CAMERA,), reasons=("zone_stop", "zone_slow", "time_to_contact", "remembered"),
            checks=(expectations.mostly_stands, expectations.no_contact), ahead=True,
        ),
        "R9 to R11 of limits.py: it stands before what is near, and creeps where noise leaves a gap",
        lambda scene: sensors.ImageNoise(_all(scene), scene.seed), IMAGES, sections=FORGETFUL,
    ),
    Fault(
        "image_wrong_size", "the cameras ahead send images of half the size", BLIND,
        "drivers/dds_camera.py: an image that is not the mount's is none; then R12",
        lambda scene: sensors.WrongSize(_front(scene)), IMAGES,
    ),
    Fault(
        "image_torn", "half of each image's bytes ahead are missing", BLIND, "drivers/dds_camera.py; then R12",
        lambda scene: sensors.Torn(_front(scene)), IMAGES,
    ),
    Fault(
        "depth_nan", "every pixel ahead is NaN, in metres", BLIND, "images.py, covered(); then R12",
        lambda scene: sensors.NotNumbers(_front(scene)), IMAGES,
    ),
    Fault(
        "color_gone", "the colour camera sends nothing", ON, "contract.py: no image is an input that is not there",
        lambda scene: sensors.color_gone(), (Need.COLOR,),
    ),
    # ---- scans that come ready-made
    Fault(
        "scan_gone", "no ready-made scan comes", NO_SCAN, "R5 of limits.py: a scan that is too old",
        lambda scene: sensors.Gone(_topics(scene)), SCANS,
    ),
    Fault(
        "scan_frozen", "one scan comes again and again", NO_SCAN,
        "drivers/dds_scan.py: a scan that is not stamped later is no new one; then R5",
        lambda scene: sensors.Frozen(_topics(scene)), SCANS,
    ),
    Fault(
        "scan_stuck", "one scan comes again and again, with stamps that go on",
        replace(NO_SCAN, timeouts=(SCAN, SCAN)),
        "unchanged.py: a scan that stays the same over a way is none; then R5",
        lambda scene: sensors.Frozen(_topics(scene), stamped=True), SCANS,
    ),
    Fault(
        "scan_late", "scans are under way for half a second longer, at their pace", NO_SCAN,
        "drivers/dds_scan.py: one that is as late as this is none; then R5",
        lambda scene: sensors.Late(_topics(scene)), SCANS,
    ),
    Fault(
        "scan_late_and_rare", "scans come three times a second, a quarter of a second late",
        Must(During.HOLDS, checks=(expectations.stands_in_between, expectations.no_contact)),
        "drivers/dds_scan.py: as old as it is late; then R5 of limits.py, until the next",
        lambda scene: sensors.Late(_topics(scene), NS_PER_S // 4, NS_PER_S // 3), SCANS,
    ),
    Fault(
        "scan_zero", "every ray is 0", AT_NEXT_SCAN,
        "laser.py: 0 is no return, not a thing in the robot's middle; then R12",
        lambda scene: sensors.Same(_topics(scene), 0.0), SCANS,
    ),
    Fault(
        "scan_near", "every ray is at 0.11 m", AT_NEXT_SCAN, "R9 of limits.py: the stop zone",
        lambda scene: sensors.Same(_topics(scene), sensors.NEAR_M), SCANS,
    ),
    Fault(
        "scan_noise", "every ray is drawn from all that it can be",
        Must(
            During.SLOWS, ticks=GRACE_TICKS + NEXT_SCAN_TICKS, reasons=("zone_stop", "zone_slow", "time_to_contact"),
            checks=(expectations.mostly_stands, expectations.no_contact), ahead=True,
        ),
        "R9 to R11 of limits.py: it stands before what is near, and creeps where noise leaves a gap",
        lambda scene: sensors.ScanNoise(_topics(scene), scene.seed), SCANS,
    ),
    Fault(
        "scan_wrong_length", "half of each scan's ranges are missing", NO_SCAN,
        "laser.py: ranges that do not end where the scan does are none; then R5",
        lambda scene: sensors.WrongLength(_topics(scene)), SCANS,
    ),
    Fault(
        "scan_nan", "every ray is NaN", AT_NEXT_SCAN, "laser.py: NaN is no ray; then R12 of limits.py",
        lambda scene: sensors.Same(_topics(scene), math.nan), SCANS,
    ),
    Fault(
        "scan_blind_ahead", "the rays ahead are NaN", AT_NEXT_SCAN, "laser.py; then R12 and R20 of limits.py",
        lambda scene: sensors.BlindAhead(_topics(scene)), SCANS,
    ),
)  # fmt: skip


OFTEN = {"recovery": {"blocked_s": 0.5, "backward_s": 0.5, "cool_down_s": 0.1}}
"""So that the tries of a recovery fit into seconds."""

WHEELS = "odometry.stale_ms"
LATE = Must(
    During.STANDS, decisions="rates.deadline_misses_to_stop", reasons=("engine_lost",),
    checks=(expectations.slows_after_a_miss,),
)  # fmt: skip
AT_HOME = Must(During.DRIVES, checks=(expectations.no_contact, expectations.place_stays))
FIXES = (Need.FIXES,)

FAULTS: tuple[Fault, ...] = (
    *SENSES,
    # ---- wheels and clocks
    Fault(
        "odometry_stopped", "the wheels say nothing",
        Must(During.STANDS, timeouts=(WHEELS,), reasons=("stale_odometry",)), "R5 of limits.py",
        lambda scene: inputs.NoOdometry(),
    ),
    Fault(
        "odometry_repeats", "the wheels say one message again and again",
        Must(During.STANDS, timeouts=(WHEELS,), reasons=("stale_odometry",)), "odometry.py: a repeat refreshes nothing",
        lambda scene: inputs.wheels_repeat(),
    ),
    Fault(
        "odometry_late", "what the wheels say is under way for half a second longer, at its pace",
        Must(During.STANDS, timeouts=(WHEELS,), reasons=("stale_odometry",)),
        "odometry.py: as old as its stamp says; then R5 of limits.py", lambda scene: inputs.LateWheels(),
    ),
    Fault(
        "odometry_zero", "the wheels say that nothing moves, with stamps that go on",
        Must(
            During.HOLDS, Then.STAYS, state="stopped: blocked: 3 recoveries",
            checks=(expectations.backs_off_bounded, expectations.no_contact),
        ),
        "R2 to R9 of recovery.py: for all that is known it is blocked; three tries, then it gives up",
        lambda scene: inputs.wheels_zero(), needs=(Need.BASE,), lasts_s=6.0, sections=OFTEN,
    ),
    Fault(
        "odometry_jumps", "the base's own pose leaps by 2 m, and its twist is what is integrated", AT_HOME,
        "odometry.py: with source twist the pose is not looked at", lambda scene: inputs.wheels_jump(),
        sections={"odometry": {"source": "twist"}},
    ),
    Fault(
        "odometry_jumps_pose", "the base's own pose leaps by 2 m, and it is what is integrated",
        Must(During.STANDS, Then.STAYS, reasons=("idle",), state="stopped: odometry refused: pose jumped"),
        "odometry.py: an impossible jump is refused", lambda scene: inputs.wheels_jump(),
        sections={"odometry": {"source": "pose"}},
    ),
    Fault(
        "odometry_nan", "the wheels measure NaN",
        Must(During.STANDS, Then.STAYS, reasons=("idle",), state="stopped: odometry refused: v is nan"),
        "odometry.py: what is no number is refused", lambda scene: inputs.wheels_nan(),
    ),
    Fault(
        "odometry_too_fast", "the wheels measure 30 m/s",
        Must(During.STANDS, Then.STAYS, reasons=("idle",), state="stopped: odometry refused: v is 30"),
        "odometry.py: what cannot be is refused", lambda scene: inputs.wheels_too_fast(30.0),
    ),
    Fault(
        "time_backward", "the clock of the wheels runs backward",
        Must(During.STANDS, timeouts=(WHEELS,), reasons=("stale_odometry",)),
        "odometry.py: what goes back refreshes nothing; then R5 of limits.py",
        lambda scene: inputs.ClockBackward(),
    ),
    Fault(
        "time_step_hour", "the clock of those who send steps forward by an hour, then back", AT_HOME,
        "odometry.py: the shorter of the stamps' and the arrivals' difference",
        lambda scene: inputs.ClockStep(inputs.HOUR_NS),
    ),
    Fault(
        "time_step_hour_back", "the clock of those who send steps back by an hour, then forward", AT_HOME,
        "odometry.py: a step back of more than a second is a new clock",
        lambda scene: inputs.ClockStep(-inputs.HOUR_NS),
    ),
    # ---- localisation and goals
    Fault(
        "localization_jump", "every fix is 2 m off", ON, "localization.py: outliers that agree start the filter anew",
        lambda scene: inputs.localization_jumps(), FIXES, lasts_s=4.0,
    ),
    Fault(
        "localization_jump_once", "one fix is 2 m off", AT_HOME, "localization.py: an outlier changes nothing",
        lambda scene: inputs.localization_jumps(1), FIXES,
    ),
    Fault(
        "localization_nan", "every fix is NaN", AT_HOME, "localization.py: refused and counted",
        lambda scene: inputs.localization_nan(), FIXES,
    ),
    Fault(
        "localization_gone", "no fix comes", AT_HOME, "localization.py: the wheels carry the estimate",
        lambda scene: inputs.localization_gone(), FIXES,
    ),
    Fault(
        "goal_lost", "the goal is withdrawn",
        Must(During.STANDS, Then.STAYS, reasons=("idle",), state="idle: cancelled"), "mission.py; R4 of limits.py",
        lambda scene: inputs.Cancelled(),
    ),
    Fault(
        "goal_nan", "goals that are no place, in every tick", ON, "start.py: refused, the drive goes on",
        lambda scene: inputs.MadGoal(scene.config.dds.map_frame),
    ),
    # ---- engine, loop, links
    Fault(
        "engine_slow", "every decision takes 200 ms longer",
        LATE,
        "decision.py: half as fast after a miss, zero after three in a row",
        lambda scene: engine.SlowEngine(),
    ),
    Fault(
        "engine_hangs", "a decision does not return", LATE,
        "inference.py: none begins before the last has returned; decision.py", lambda scene: engine.HungEngine(),
    ),
    Fault(
        "engine_fails", "every decision fails",
        Must(During.STANDS, Then.STAYS, decisions=1, reasons=("idle",), state="stopped: engine failed: injected"),
        "decision.py: a failed engine ends the drive", lambda scene: engine.FailingEngine(),
    ),
    Fault(
        "engine_nan", "every decision is NaN, its memory too",
        Must(
            During.STANDS, Then.STAYS, decisions=1, reasons=("idle",), state="stopped: engine failed: logits not finite"
        ),
        "decision.py, fault_of()", lambda scene: engine.NanEngine(),
    ),
    Fault(
        "loop_blocked", "the event loop is busy for 300 ms",
        Must(During.DRIVES, checks=(expectations.misses_counted, expectations.no_contact)),
        "scheduler.py, grid(): missed slots are skipped and counted", lambda scene: engine.BlockedLoop(),
        (Need.CLOCK,), process="pause",
    ),
    Fault(
        "base_deaf", "the base stands, whatever it is told, and its bumper says that it is held",
        Must(
            During.HOLDS, Then.STAYS, state="stopped: blocked: 3 recoveries",
            checks=(expectations.backs_off_bounded,),
        ),
        "R2 to R9 of recovery.py: three tries, then it gives up", lambda scene: engine.DeafBase(),
        (Need.BASE,), lasts_s=6.0, sections=OFTEN,
    ),
    Fault(
        "drive_lost", "a command cannot be sent", Must(During.HOLDS, Then.LEAVES),
        "runtime.py, run(): whatever ends it, the last command is zero", lambda scene: engine.LostDrive(),
        (Need.BASE,),
    ),
    Fault(
        "peer_gone", "all that came over the wire stops, and comes back",
        Must(
            During.STANDS, timeouts=(WHEELS,), reasons=("stale_odometry", "stale_scan", "idle"),
            checks=(expectations.no_contact,),
        ),
        "R5 of limits.py; mission.py: lost for 5 s ends the drive", lambda scene: inputs.Silent(),
        process="peer",
    ),
    Fault(
        "disk_full", "the disk takes nothing more from the recorder", ON,
        "record.py: recording ends with one reason, driving goes on", process="disk",
    ),
    # ---- people
    *LATE_MESSAGES,
    Fault(
        "obstacle_stuck", "the notice of an obstacle stays on",
        Must(
            During.NOT_FORWARD, Then.STAYS, state="stopped: blocked: 3 recoveries",
            checks=(expectations.backs_off_bounded, expectations.no_contact), ahead=True,
        ),
        "R23 of limits.py: nothing forward; R2 to R9 of recovery.py: three tries, then it gives up",
        lambda scene: inputs.Notice(), needs=(Need.BASE,), lasts_s=8.0, sections=OFTEN,
    ),
    Fault(
        "override_flood", "an operator's commands in every tick: any, too fast, no numbers",
        Must(During.HOLDS), "R1, R3 and R6 of limits.py", lambda scene: inputs.Flood(scene.seed), process="flood",
    ),
    Fault(
        "e_stop", "the e-stop is pressed, then released",
        Must(During.STANDS, Then.STAYS, reasons=("e_stop",), state="stopped: e_stop"), "R2 of limits.py",
        lambda scene: inputs.EStop(),
    ),
    Fault(
        "e_stop_sender_gone", "who pressed the e-stop is gone without a word",
        Must(During.STANDS, Then.STAYS, reasons=("e_stop",), state="stopped: e_stop"),
        "drivers/dds_alarm.py: a true whose writer is gone stays", process="e_stop",
    ),
    Fault(
        "speed_limit_nan", "the speed limit from outside is NaN", ON, "R19 of limits.py: refused",
        lambda scene: inputs.MadSpeedLimit(),
    ),
)  # fmt: skip
