"""The table of faults. A row gives the injected fault, the required reaction, its deadline and the rule behind it."""

from __future__ import annotations

import math
from dataclasses import replace

from hil.reliability.faults import expectations
from hil.reliability.faults.expectations import During, Must, Then
from hil.reliability.faults.fault import Fault, Need
from hil.reliability.faults.inject import engine, inputs, sensors
from hil.reliability.faults.inject.schedule import COLOR, Scene
from hil.reliability.faults.inject.sensors import ahead, topics
from hil.reliability.faults.invariants import GRACE_TICKS
from onboard.policy.decision import MISSES_TO_STOP
from onboard.values.clock import NS_PER_S

# ---- Late commands and goals

LATE_MESSAGES: tuple[Fault, ...] = (
    Fault(
        "teleop_late", "an operator's commands come a second after they were written",
        Must(During.STANDS, reasons=("teleop",), checks=(expectations.late_operator_holds, expectations.no_contact)),
        "onboard/drivers/dds/command_inputs.py: a late command stops the robot; then R3 of onboard/safety/limits.py",
        lasts_s=4.0, process="late operator",
    ),
    Fault(
        "goal_late", "a goal comes that was written when the one that is driven to was",
        Must(During.DRIVES, checks=(expectations.goal_refused, expectations.no_contact)),
        "onboard/episode.py: a goal with too much latency is refused", lasts_s=6.0, process="late goal",
    ),
)  # fmt: skip


# ---- Cameras and ready-made scans


def _all(scene: Scene) -> frozenset[str]:
    return frozenset(scene.mounts.depth)


def _front(scene: Scene) -> frozenset[str]:
    return ahead(scene.mounts)


def _topics(scene: Scene) -> frozenset[str]:
    return topics(scene.config)


CAMERA, SCAN = "cameras.stale_ms", "limits.scan_stale_ms"
HELD_BACK = ("blind_ahead", "zone_stop", "stale_scan", "looking")
BLIND = Must(During.NOT_FORWARD, timeouts=(CAMERA,), reasons=HELD_BACK, checks=(expectations.no_contact,), ahead=True)
TOO_NEAR = Must(
    During.NOT_FORWARD, timeouts=(CAMERA,), reasons=(*HELD_BACK, "remembered"),
    checks=(expectations.no_contact,), ahead=True,
)  # fmt: skip
LOST = Must(During.SLOWS, timeouts=(CAMERA,), reasons=HELD_BACK, checks=(expectations.no_contact,), ahead=True)
SIGHTLESS = Must(
    During.STANDS, timeouts=(SCAN,), reasons=("stale_scan", "blind_ahead"), checks=(expectations.no_contact,)
)
ON = Must(During.DRIVES, checks=(expectations.no_contact,))
IMAGES, SCANS = (Need.IMAGES,), (Need.SCANS,)
NEXT_SCAN_TICKS = 2
"""Here a ready-made scan arrives in every second tick."""
AT_NEXT_SCAN = Must(
    During.NOT_FORWARD, ticks=GRACE_TICKS + NEXT_SCAN_TICKS, reasons=(*HELD_BACK, "remembered"),
    checks=(expectations.no_contact,), ahead=True,
)  # fmt: skip
NO_SCAN = Must(During.STANDS, timeouts=(SCAN,), reasons=("stale_scan",), checks=(expectations.no_contact,))

SOON = {"recovery": {"blocked_s": 2.2, "backward_s": 1.0}}
"""Short recovery times, so that the robot backs off and drives on within the time that the table allows. The robot
remembers obstacles too near for its cameras for `BRIEF_NS` of `onboard/perception/obstacle_memory.py`."""

FORGETFUL = {"limits": {"remember_s": 1.0}}
"""A short obstacle memory: the robot soon forgets false obstacles that noise has put outside the cameras' view."""

SENSES: tuple[Fault, ...] = (
    # ---- cameras
    Fault(
        "camera_gone", "the cameras ahead send nothing for 2 s", BLIND,
        "R12 of onboard/safety/limits.py: the robot does not drive into a blind sector before it has looked",
        lambda scene: sensors.Gone(_front(scene)), IMAGES,
    ),
    Fault(
        "camera_lost", "the cameras ahead send nothing for 6 s", LOST,
        "R12 of onboard/safety/limits.py: it turns to look, then drives over ground that was seen free",
        lambda scene: sensors.Gone(_front(scene)), IMAGES, lasts_s=6.0,
    ),
    Fault(
        "cameras_gone", "all depth cameras send nothing", SIGHTLESS,
        "R5 of onboard/safety/limits.py: the scan is stale",
        lambda scene: sensors.Gone(_all(scene)), IMAGES,
    ),
    Fault(
        "image_frozen", "the cameras ahead send one frame again and again", BLIND,
        "onboard/drivers/dds/camera_input.py: an image whose stamp does not increase is dropped; then R12",
        lambda scene: sensors.Frozen(_front(scene)), IMAGES,
    ),
    Fault(
        "image_stuck", "the cameras ahead send one picture with stamps that go on",
        Must(
            During.NOT_FORWARD, timeouts=(CAMERA, SCAN), reasons=HELD_BACK, checks=(expectations.no_contact,),
            ahead=True
        ),
        "onboard/perception/frozen_sensor.py: an image that does not change while the robot moves is dropped; then R12",
        lambda scene: sensors.Frozen(_front(scene), stamped=True), (Need.IMAGES, Need.ALL_IMAGES),
    ),
    Fault(
        "image_late", "the pictures of the cameras ahead are under way for half a second longer, at their pace", BLIND,
        "onboard/drivers/dds/sender_clock.py: the image is as old as its stamp says; then R12",
        lambda scene: sensors.Late(_front(scene)), IMAGES,
    ),
    Fault(
        "depth_zero", "every pixel ahead is 0, as before a covered lens", BLIND,
        "covered() of onboard/values/images.py; then R12",
        lambda scene: sensors.painted(_front(scene), scene.mounts, 0.0), IMAGES,
    ),
    Fault(
        "depth_zero_all", "every pixel of all cameras is 0", SIGHTLESS,
        "covered() of onboard/values/images.py; then R5",
        lambda scene: sensors.painted(_all(scene), scene.mounts, 0.0), IMAGES,
    ),
    Fault(
        "depth_near", "every pixel ahead is at 0.11 m", TOO_NEAR,
        "R9 or R20 of onboard/safety/limits.py: stop zone or remembered obstacle, until the robot has backed off",
        lambda scene: sensors.painted(_front(scene), scene.mounts, sensors.NEAR_M), IMAGES,
        sections=SOON,
    ),
    Fault(
        "depth_noise", "every pixel of all cameras is drawn from all that it can be",
        Must(
            During.SLOWS, timeouts=(CAMERA,), reasons=("zone_stop", "zone_slow", "time_to_contact", "remembered"),
            checks=(expectations.mostly_stands, expectations.no_contact), ahead=True,
        ),
        "R9 to R11 of onboard/safety/limits.py: stands before near obstacles, creeps where noise leaves a gap",
        lambda scene: sensors.image_noise(_all(scene), scene.seed), IMAGES, sections=FORGETFUL,
    ),
    Fault(
        "image_wrong_size", "the cameras ahead send images of half the size", BLIND,
        "onboard/drivers/dds/camera_input.py: an image without the size of its mount is refused; then R12",
        lambda scene: sensors.wrong_size(_front(scene)), IMAGES,
    ),
    Fault(
        "image_torn", "half of each image's bytes ahead are missing", BLIND,
        "onboard/drivers/dds/camera_input.py: an incomplete image is refused; then R12",
        lambda scene: sensors.torn(_front(scene)), IMAGES,
    ),
    Fault(
        "depth_nan", "every pixel ahead is NaN, in metres", BLIND, "covered() of onboard/values/images.py; then R12",
        lambda scene: sensors.not_numbers(_front(scene)), IMAGES,
    ),
    Fault(
        "color_gone", "the colour camera sends nothing", ON,
        "onboard/policy/contract.py: without an image the policy gets the absent value of its manifest",
        lambda scene: sensors.Gone({COLOR}), (Need.COLOR,),
    ),
    # ---- ready-made scans
    Fault(
        "scan_gone", "no ready-made scan comes", NO_SCAN, "R5 of onboard/safety/limits.py: the scan is stale",
        lambda scene: sensors.Gone(_topics(scene)), SCANS,
    ),
    Fault(
        "scan_frozen", "one scan comes again and again", NO_SCAN,
        "onboard/drivers/dds/scan_input.py: a scan whose stamp does not increase is refused; then R5",
        lambda scene: sensors.Frozen(_topics(scene)), SCANS,
    ),
    Fault(
        "scan_stuck", "one scan comes again and again, with stamps that go on",
        replace(NO_SCAN, timeouts=(SCAN, SCAN)),
        "onboard/perception/frozen_sensor.py: a scan that does not change while the robot moves is dropped; then R5",
        lambda scene: sensors.Frozen(_topics(scene), stamped=True), SCANS,
    ),
    Fault(
        "scan_late", "scans are under way for half a second longer, at their pace", NO_SCAN,
        "onboard/drivers/dds/scan_input.py: a scan with too much latency is refused; then R5",
        lambda scene: sensors.Late(_topics(scene)), SCANS,
    ),
    Fault(
        "scan_late_and_rare", "scans come three times a second, a quarter of a second late",
        Must(During.HOLDS, checks=(expectations.stands_in_between, expectations.no_contact)),
        "onboard/drivers/dds/scan_input.py: latency is age; then R5 of onboard/safety/limits.py, until the next scan",
        lambda scene: sensors.Late(_topics(scene), NS_PER_S // 4, NS_PER_S // 3), SCANS,
    ),
    Fault(
        "scan_zero", "every ray is 0", AT_NEXT_SCAN,
        "onboard/perception/laser_scan.py: 0 means no return, not an obstacle at the robot's centre; then R12",
        lambda scene: sensors.same(_topics(scene), 0.0), SCANS,
    ),
    Fault(
        "scan_near", "every ray is at 0.11 m", AT_NEXT_SCAN, "R9 of onboard/safety/limits.py: the stop zone",
        lambda scene: sensors.same(_topics(scene), sensors.NEAR_M), SCANS,
    ),
    Fault(
        "scan_noise", "every ray is drawn from all that it can be",
        Must(
            During.SLOWS, ticks=GRACE_TICKS + NEXT_SCAN_TICKS, reasons=("zone_stop", "zone_slow", "time_to_contact"),
            checks=(expectations.mostly_stands, expectations.no_contact), ahead=True,
        ),
        "R9 to R11 of onboard/safety/limits.py: stands before near obstacles, creeps where noise leaves a gap",
        lambda scene: sensors.scan_noise(_topics(scene), scene.seed), SCANS,
    ),
    Fault(
        "scan_wrong_length", "half of each scan's ranges are missing", NO_SCAN,
        "onboard/perception/laser_scan.py: a scan whose ranges do not reach its last angle is refused; then R5",
        lambda scene: sensors.wrong_length(_topics(scene)), SCANS,
    ),
    Fault(
        "scan_nan", "every ray is NaN", AT_NEXT_SCAN,
        "onboard/perception/laser_scan.py: NaN is an invalid ray; then R12 of onboard/safety/limits.py",
        lambda scene: sensors.same(_topics(scene), math.nan), SCANS,
    ),
    Fault(
        "scan_blind_ahead", "the rays ahead are NaN", AT_NEXT_SCAN,
        "onboard/perception/laser_scan.py: NaN is an invalid ray; then R12 and R20 of onboard/safety/limits.py",
        lambda scene: sensors.blind_ahead(_topics(scene)), SCANS,
    ),
)  # fmt: skip


OFTEN = {"recovery": {"blocked_s": 0.5, "backward_s": 0.5, "tries": 2}}
"""Short recovery times, so that all tries of a recovery fit into the few seconds of a fault."""

WHEELS = "odometry.stale_ms"
LATE = Must(
    During.STANDS, decisions=MISSES_TO_STOP, reasons=("engine_lost",),
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
        Must(During.STANDS, timeouts=(WHEELS,), reasons=("stale_odometry",)),
        "onboard/navigation/odometry.py: a repeated stamp leaves the odometry stale",
        lambda scene: inputs.wheels_repeat(),
    ),
    Fault(
        "odometry_late", "what the wheels say is under way for half a second longer, at its pace",
        Must(During.STANDS, timeouts=(WHEELS,), reasons=("stale_odometry",)),
        "onboard/navigation/odometry.py: the message is as old as its stamp says; then R5 of onboard/safety/limits.py",
        lambda scene: inputs.LateWheels(),
    ),
    Fault(
        "odometry_zero", "the wheels say that nothing moves, with stamps that go on",
        Must(
            During.HOLDS, Then.STAYS, state="stopped: blocked: 2 recoveries",
            checks=(expectations.no_contact,),
        ),
        "R2 to R9 of onboard/safety/recovery.py: the robot seems blocked; three tries, then it gives up",
        lambda scene: inputs.wheels_zero(), needs=(Need.BASE,), lasts_s=6.0, sections=OFTEN,
    ),
    Fault(
        "odometry_jumps", "the base's own pose leaps by 2 m, and its twist is what is integrated",
        Must(During.STANDS, Then.STAYS, reasons=("idle",), state="stopped: /odom jumped"),
        "onboard/navigation/odometry.py: a jump of the base's own pose ends a drive and moves the odom frame",
        lambda scene: inputs.wheels_jump(), sections={"odometry": {"source": "twist"}},
    ),
    Fault(
        "odometry_jumps_pose", "the base's own pose leaps by 2 m, and it is what is integrated",
        Must(During.STANDS, Then.STAYS, reasons=("idle",), state="stopped: odometry refused: pose jumped"),
        "onboard/navigation/odometry.py: an impossible jump is refused", lambda scene: inputs.wheels_jump(),
        sections={"odometry": {"source": "pose"}},
    ),
    Fault(
        "odometry_nan", "the wheels measure NaN",
        Must(During.STANDS, Then.STAYS, reasons=("idle",), state="stopped: odometry refused: v is nan"),
        "onboard/navigation/odometry.py: a value that is not finite is refused", lambda scene: inputs.wheels_nan(),
    ),
    Fault(
        "odometry_too_fast", "the wheels measure 30 m/s",
        Must(During.STANDS, Then.STAYS, reasons=("idle",), state="stopped: odometry refused: v is 30"),
        "onboard/navigation/odometry.py: a speed beyond the limit is refused",
        lambda scene: inputs.wheels_too_fast(30.0),
    ),
    Fault(
        "time_backward", "the clock of the wheels runs backward",
        Must(During.STANDS, timeouts=(WHEELS,), reasons=("stale_odometry",)),
        "onboard/navigation/odometry.py: an older stamp leaves the odometry stale; then R5 of onboard/safety/limits.py",
        lambda scene: inputs.ClockBackward(),
    ),
    Fault(
        "time_step_hour", "the clock of those who send steps forward by an hour, then back", AT_HOME,
        "onboard/navigation/odometry.py: uses the shorter difference of stamps and of arrivals",
        lambda scene: inputs.ClockStep(inputs.HOUR_NS),
    ),
    Fault(
        "time_step_hour_back", "the clock of those who send steps back by an hour, then forward", AT_HOME,
        "onboard/navigation/odometry.py: a step back is a clock that was set",
        lambda scene: inputs.ClockStep(-inputs.HOUR_NS),
    ),
    # ---- localisation and goals
    Fault(
        "localization_jump", "every fix is 2 m off", ON,
        "onboard/navigation/ekf.py: outliers that agree restart the filter",
        lambda scene: inputs.localization_jumps(), FIXES, lasts_s=4.0,
    ),
    Fault(
        "localization_jump_once", "one fix is 2 m off", AT_HOME,
        "onboard/navigation/ekf.py: an outlier changes nothing",
        lambda scene: inputs.localization_jumps(1), FIXES,
    ),
    Fault(
        "localization_nan", "every fix is NaN", AT_HOME,
        "onboard/navigation/fix_gating.py: the fix is refused and counted",
        lambda scene: inputs.localization_nan(), FIXES,
    ),
    Fault(
        "localization_gone", "no fix comes", AT_HOME, "onboard/navigation/ekf.py: the odometry carries the estimate on",
        lambda scene: inputs.localization_gone(), FIXES,
    ),
    Fault(
        "goal_lost", "the goal is withdrawn",
        Must(During.STANDS, Then.STAYS, reasons=("idle",), state="idle: cancelled"),
        "onboard/navigation/mission.py; R4 of onboard/safety/limits.py",
        lambda scene: inputs.Cancelled(),
    ),
    Fault(
        "goal_nan", "goals that are no place, in every tick", ON,
        "onboard/navigation/start_frame.py: the goal is refused and the drive goes on",
        lambda scene: inputs.MadGoal(scene.config.dds.map_frame),
    ),
    # ---- engine, loop, links
    Fault(
        "engine_slow", "every decision takes 200 ms longer",
        LATE,
        "onboard/policy/decision.py: half the set point after a deadline miss, zero after three in a row",
        lambda scene: engine.SlowEngine(),
    ),
    Fault(
        "engine_hangs", "a decision does not return", LATE,
        "onboard/policy/inference.py: no decision begins before the previous decision is finished; then decision.py",
        lambda scene: engine.HungEngine(),
    ),
    Fault(
        "engine_fails", "every decision fails",
        Must(During.STANDS, Then.STAYS, decisions=1, reasons=("idle",), state="stopped: engine failed: injected"),
        "onboard/policy/decision.py: a failed engine ends the drive", lambda scene: engine.FailingEngine(),
    ),
    Fault(
        "engine_nan", "every decision is NaN, its memory too",
        Must(
            During.STANDS, Then.STAYS, decisions=1, reasons=("idle",), state="stopped: engine failed: logits not finite"
        ),
        "fault_of() of onboard/policy/decision.py", lambda scene: engine.NanEngine(),
    ),
    Fault(
        "loop_blocked", "the event loop is busy for 300 ms",
        Must(During.DRIVES, checks=(expectations.misses_counted, expectations.no_contact)),
        "grid() of onboard/values/clock.py: missed slots are skipped and counted", lambda scene: engine.BlockedLoop(),
        (Need.CLOCK,), process="pause",
    ),
    Fault(
        "base_deaf", "the base stands, whatever it is told, and its bumper says that it is held",
        Must(
            During.HOLDS, Then.STAYS, state="stopped: blocked: 2 recoveries"
        ),
        "R2 to R9 of onboard/safety/recovery.py: three tries, then the recovery gives up",
        lambda scene: engine.DeafBase(),
        (Need.BASE,), lasts_s=6.0, sections=OFTEN,
    ),
    Fault(
        "drive_lost", "a command cannot be sent", Must(During.HOLDS, Then.LEAVES),
        "run() of onboard/runtime.py: the last command is zero, also after an error", lambda scene: engine.LostDrive(),
        (Need.BASE,),
    ),
    Fault(
        "peer_gone", "all that came over the wire stops, and comes back",
        Must(
            During.STANDS, timeouts=(WHEELS,), reasons=("stale_odometry", "stale_scan", "idle"),
            checks=(expectations.no_contact,),
        ),
        "R5 of onboard/safety/limits.py; onboard/navigation/mission.py: an input lost for 5 s ends the drive",
        lambda scene: inputs.Silent(),
        process="peer",
    ),
    Fault(
        "disk_full", "the disk takes nothing more from the recorder", ON,
        "onboard/recording/recorder.py: the recording ends with one reason, the drive goes on", process="disk",
    ),
    # ---- people
    *LATE_MESSAGES,
    Fault(
        "obstacle_stuck", "the notice of an obstacle stays on",
        Must(
            During.NOT_FORWARD, Then.STAYS, state="stopped: blocked: 2 recoveries",
            checks=(expectations.no_contact,), ahead=True,
        ),
        "R23 of onboard/safety/limits.py: no forward motion; R2 to R9 of recovery.py: three tries, then it gives up",
        lambda scene: inputs.Notice(), needs=(Need.BASE,), lasts_s=8.0, sections=OFTEN,
    ),
    Fault(
        "held_turning", "something holds the robot, which only turns; its bumper is on, and the policy wants to turn",
        Must(
            During.NOT_FORWARD, Then.STAYS, state="stopped: blocked: 2 recoveries"
        ),
        "R24 of onboard/safety/limits.py: turns slowly; R16 of recovery.py: blocked, however it turns",
        lambda scene: engine.HeldBase(), needs=(Need.BASE,), lasts_s=8.0, sections=OFTEN,
    ),
    Fault(
        "override_flood", "an operator's commands in every tick: any, too fast, no numbers",
        Must(During.HOLDS), "R1, R3 and R6 of onboard/safety/limits.py",
        lambda scene: inputs.Flood(scene.seed), process="flood",
    ),
    Fault(
        "e_stop", "the e-stop is pressed, then released",
        Must(During.STANDS, Then.STAYS, reasons=("e_stop",), state="stopped: e_stop"),
        "R2 of onboard/safety/limits.py",
        lambda scene: inputs.EStop(),
    ),
    Fault(
        "e_stop_sender_gone", "who pressed the e-stop is gone without a word",
        Must(During.STANDS, Then.STAYS, reasons=("e_stop",), state="stopped: e_stop"),
        "onboard/drivers/dds/latched_inputs.py: the true of a writer that is gone stays", process="e_stop",
    ),
    Fault(
        "speed_limit_nan", "the speed limit from outside is NaN", ON,
        "R19 of onboard/safety/limits.py: the limit is refused",
        lambda scene: inputs.MadSpeedLimit(),
    ),
)  # fmt: skip
