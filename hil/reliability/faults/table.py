"""The table of faults. A row gives the injected fault, the required reaction, its deadline and the rule behind it."""

from __future__ import annotations

import math
from dataclasses import replace

from hil.reliability.faults import expectations
from hil.reliability.faults.expectations import Aftermath, Expectation, Reaction
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
        "teleop_late", "an operator's commands are received one second late",
        Expectation(Reaction.STANDS, reasons=("teleop",),
                    checks=(expectations.late_operator_holds, expectations.no_contact)),
        "onboard/drivers/dds/command_inputs.py: a late command stops the robot; then R3 of onboard/safety/limits.py",
        lasts_s=4.0, process="late operator",
    ),
    Fault(
        "goal_late", "a second goal is received, as old as the active goal",
        Expectation(Reaction.DRIVES, checks=(expectations.goal_refused, expectations.no_contact)),
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
BLIND = Expectation(
    Reaction.NOT_FORWARD, timeouts=(CAMERA,), reasons=HELD_BACK, checks=(expectations.no_contact,), ahead=True
)
TOO_NEAR = Expectation(
    Reaction.NOT_FORWARD, timeouts=(CAMERA,), reasons=(*HELD_BACK, "remembered"),
    checks=(expectations.no_contact,), ahead=True,
)  # fmt: skip
LOST = Expectation(Reaction.SLOWS, timeouts=(CAMERA,), reasons=HELD_BACK, checks=(expectations.no_contact,), ahead=True)
SIGHTLESS = Expectation(
    Reaction.STANDS, timeouts=(SCAN,), reasons=("stale_scan", "blind_ahead"), checks=(expectations.no_contact,)
)
ON = Expectation(Reaction.DRIVES, checks=(expectations.no_contact,))
IMAGES, SCANS = (Need.IMAGES,), (Need.SCANS,)
NEXT_SCAN_TICKS = 2
"""Here a ready-made scan arrives in every second tick."""
AT_NEXT_SCAN = Expectation(
    Reaction.NOT_FORWARD, ticks=GRACE_TICKS + NEXT_SCAN_TICKS, reasons=(*HELD_BACK, "remembered"),
    checks=(expectations.no_contact,), ahead=True,
)  # fmt: skip
NO_SCAN = Expectation(Reaction.STANDS, timeouts=(SCAN,), reasons=("stale_scan",), checks=(expectations.no_contact,))

SOON = {"recovery": {"blocked_s": 2.2, "backward_s": 1.0}}
"""Short recovery times, so that the robot backs off and drives on within the time that the table allows. The robot
remembers obstacles too near for its cameras for `BRIEF_NS` of `onboard/perception/obstacle_memory.py`."""

FORGETFUL = {"limits": {"remember_s": 1.0}}
"""A short obstacle memory: the robot soon forgets false obstacles that noise has put outside the cameras' view."""

SENSES: tuple[Fault, ...] = (
    # ---- cameras
    Fault(
        "camera_gone", "the front cameras send nothing for 2 s", BLIND,
        "R12 of onboard/safety/limits.py: the robot does not drive into a blind sector before it has looked",
        lambda scene: sensors.NoMessages(_front(scene)), IMAGES,
    ),
    Fault(
        "camera_lost", "the front cameras send nothing for 6 s", LOST,
        "R12 of onboard/safety/limits.py: it turns to look, then drives over ground that was seen free",
        lambda scene: sensors.NoMessages(_front(scene)), IMAGES, lasts_s=6.0,
    ),
    Fault(
        "cameras_gone", "all depth cameras send nothing", SIGHTLESS,
        "R5 of onboard/safety/limits.py: the scan is stale",
        lambda scene: sensors.NoMessages(_all(scene)), IMAGES,
    ),
    Fault(
        "image_frozen", "the front cameras repeat one frame with the same stamp", BLIND,
        "onboard/drivers/dds/camera_input.py: an image whose stamp does not increase is dropped; then R12",
        lambda scene: sensors.Frozen(_front(scene)), IMAGES,
    ),
    Fault(
        "image_stuck", "the front cameras repeat one image with new stamps",
        Expectation(
            Reaction.NOT_FORWARD, timeouts=(CAMERA, SCAN), reasons=HELD_BACK, checks=(expectations.no_contact,),
            ahead=True
        ),
        "onboard/assembly/inbox.py: an image that does not change while the robot moves is dropped; then R12",
        lambda scene: sensors.Frozen(_front(scene), stamped=True), (Need.IMAGES, Need.ALL_IMAGES),
    ),
    Fault(
        "image_late", "images of the front cameras are delayed by 0.5 s, at their normal rate", BLIND,
        "onboard/drivers/dds/sender_clock.py: the image is as old as its stamp says; then R12",
        lambda scene: sensors.DelayedMessages(_front(scene)), IMAGES,
    ),
    Fault(
        "depth_zero", "every pixel of the front cameras is 0, as with a covered lens", BLIND,
        "covered() of onboard/values/images.py; then R12",
        lambda scene: sensors.painted(_front(scene), scene.mounts, 0.0), IMAGES,
    ),
    Fault(
        "depth_zero_all", "every pixel of all cameras is 0", SIGHTLESS,
        "covered() of onboard/values/images.py; then R5",
        lambda scene: sensors.painted(_all(scene), scene.mounts, 0.0), IMAGES,
    ),
    Fault(
        "depth_near", "every pixel of the front cameras is at 0.11 m", TOO_NEAR,
        "R9 or R20 of onboard/safety/limits.py: stop zone or remembered obstacle, until the robot has backed off",
        lambda scene: sensors.painted(_front(scene), scene.mounts, sensors.NEAR_M), IMAGES,
        sections=SOON,
    ),
    Fault(
        "depth_noise", "every pixel of all cameras is a random value",
        Expectation(
            Reaction.SLOWS, timeouts=(CAMERA,), reasons=("zone_stop", "zone_slow", "time_to_contact", "remembered"),
            checks=(expectations.mostly_stands, expectations.no_contact), ahead=True,
        ),
        "R9 to R11 of onboard/safety/limits.py: stops before near obstacles, creeps where noise leaves a gap",
        lambda scene: sensors.image_noise(_all(scene), scene.seed), IMAGES, sections=FORGETFUL,
    ),
    Fault(
        "image_wrong_size", "the front cameras send images of half the size", BLIND,
        "onboard/drivers/dds/camera_input.py: an image without the size of its mount is refused; then R12",
        lambda scene: sensors.wrong_size(_front(scene)), IMAGES,
    ),
    Fault(
        "image_torn", "images of the front cameras lack half of their bytes", BLIND,
        "onboard/drivers/dds/camera_input.py: an incomplete image is refused; then R12",
        lambda scene: sensors.torn(_front(scene)), IMAGES,
    ),
    Fault(
        "depth_nan", "every pixel of the front cameras is NaN, in metres", BLIND, "covered() of "
                                                                                  "onboard/values/images.py; then R12",
        lambda scene: sensors.not_numbers(_front(scene)), IMAGES,
    ),
    Fault(
        "color_gone", "the colour camera sends nothing", ON,
        "onboard/policy/contract.py: without an image the policy gets the absent value of its manifest",
        lambda scene: sensors.NoMessages({COLOR}), (Need.COLOR,),
    ),
    # ---- ready-made scans
    Fault(
        "scan_gone", "no ready-made scan is received", NO_SCAN, "R5 of onboard/safety/limits.py: the scan is stale",
        lambda scene: sensors.NoMessages(_topics(scene)), SCANS,
    ),
    Fault(
        "scan_frozen", "one scan is repeated with the same stamp", NO_SCAN,
        "onboard/drivers/dds/scan_input.py: a scan whose stamp does not increase is refused; then R5",
        lambda scene: sensors.Frozen(_topics(scene)), SCANS,
    ),
    Fault(
        "scan_stuck", "one scan is repeated with new stamps",
        replace(NO_SCAN, timeouts=(SCAN, SCAN)),
        "onboard/assembly/inbox.py: a scan that does not change while the robot moves is dropped; then R5",
        lambda scene: sensors.Frozen(_topics(scene), stamped=True), SCANS,
    ),
    Fault(
        "scan_late", "scans are delayed by 0.5 s, at their normal rate", NO_SCAN,
        "onboard/drivers/dds/scan_input.py: a scan with too much latency is refused; then R5",
        lambda scene: sensors.DelayedMessages(_topics(scene)), SCANS,
    ),
    Fault(
        "scan_late_and_rare", "scans are received at 3 Hz, 0.25 s late",
        Expectation(Reaction.HOLDS, checks=(expectations.stands_in_between, expectations.no_contact)),
        "onboard/drivers/dds/scan_input.py: latency is age; then R5 of onboard/safety/limits.py, until the next scan",
        lambda scene: sensors.DelayedMessages(_topics(scene), NS_PER_S // 4, NS_PER_S // 3), SCANS,
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
        "scan_noise", "every ray is a random value",
        Expectation(
            Reaction.SLOWS, ticks=GRACE_TICKS + NEXT_SCAN_TICKS, reasons=("zone_stop", "zone_slow", "time_to_contact"),
            checks=(expectations.mostly_stands, expectations.no_contact), ahead=True,
        ),
        "R9 to R11 of onboard/safety/limits.py: stops before near obstacles, creeps where noise leaves a gap",
        lambda scene: sensors.scan_noise(_topics(scene), scene.seed), SCANS,
    ),
    Fault(
        "scan_wrong_length", "each scan lacks half of its ranges", NO_SCAN,
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
LATE = Expectation(
    Reaction.STANDS, decisions=MISSES_TO_STOP, reasons=("engine_lost",),
    checks=(expectations.slows_after_a_miss,),
)  # fmt: skip
AT_HOME = Expectation(Reaction.DRIVES, checks=(expectations.no_contact, expectations.place_stays))
FIXES = (Need.FIXES,)

FAULTS: tuple[Fault, ...] = (
    *SENSES,
    # ---- wheels and clocks
    Fault(
        "odometry_stopped", "no odometry is received",
        Expectation(Reaction.STANDS, timeouts=(WHEELS,), reasons=("stale_odometry",)), "R5 of limits.py",
        lambda scene: inputs.NoOdometry(),
    ),
    Fault(
        "odometry_repeats", "odometry repeats one message",
        Expectation(Reaction.STANDS, timeouts=(WHEELS,), reasons=("stale_odometry",)),
        "onboard/navigation/odometry.py: a repeated stamp leaves the odometry stale",
        lambda scene: inputs.wheels_repeat(),
    ),
    Fault(
        "odometry_late", "odometry is delayed by 0.5 s, at its normal rate",
        Expectation(Reaction.STANDS, timeouts=(WHEELS,), reasons=("stale_odometry",)),
        "onboard/navigation/odometry.py: the message is as old as its stamp says; then R5 of onboard/safety/limits.py",
        lambda scene: inputs.LateWheels(),
    ),
    Fault(
        "odometry_zero", "odometry reports no motion, with new stamps",
        Expectation(
            Reaction.HOLDS, Aftermath.STAYS, state="stopped: blocked: 2 recoveries",
            checks=(expectations.no_contact,),
        ),
        "R2 to R9 of onboard/safety/recovery.py: the robot seems blocked; three attempts, then it gives up",
        lambda scene: inputs.wheels_zero(), needs=(Need.BASE,), lasts_s=6.0, sections=OFTEN,
    ),
    Fault(
        "odometry_jumps", "the pose in the odometry jumps by 2 m, and the runtime integrates its twist",
        Expectation(Reaction.STANDS, Aftermath.STAYS, reasons=("idle",), state="stopped: /odom jumped"),
        "onboard/navigation/odometry.py: a jump of the base's own pose ends a drive and moves the odom frame",
        lambda scene: inputs.wheels_jump(), sections={"odometry": {"source": "twist"}},
    ),
    Fault(
        "odometry_jumps_pose", "the pose in the odometry jumps by 2 m, and the runtime integrates this pose",
        Expectation(Reaction.STANDS, Aftermath.STAYS, reasons=("idle",),
                    state="stopped: odometry refused: pose jumped"),
        "onboard/navigation/odometry.py: an impossible jump is refused", lambda scene: inputs.wheels_jump(),
        sections={"odometry": {"source": "pose"}},
    ),
    Fault(
        "odometry_nan", "odometry is NaN",
        Expectation(Reaction.STANDS, Aftermath.STAYS, reasons=("idle",), state="stopped: odometry refused: v is nan"),
        "onboard/navigation/odometry.py: a value that is not finite is refused", lambda scene: inputs.wheels_nan(),
    ),
    Fault(
        "odometry_too_fast", "odometry reports 30 m/s",
        Expectation(Reaction.STANDS, Aftermath.STAYS, reasons=("idle",), state="stopped: odometry refused: v is 30"),
        "onboard/navigation/odometry.py: a speed beyond the limit is refused",
        lambda scene: inputs.wheels_too_fast(30.0),
    ),
    Fault(
        "time_backward", "the clock of the odometry runs backward",
        Expectation(Reaction.STANDS, timeouts=(WHEELS,), reasons=("stale_odometry",)),
        "onboard/navigation/odometry.py: an older stamp leaves the odometry stale; then R5 of onboard/safety/limits.py",
        lambda scene: inputs.ClockBackward(),
    ),
    Fault(
        "time_step_hour", "the senders' clock jumps forward by one hour, then back", AT_HOME,
        "onboard/navigation/odometry.py: uses the shorter interval, by stamps or by times of receipt",
        lambda scene: inputs.ClockStep(inputs.HOUR_NS),
    ),
    Fault(
        "time_step_hour_back", "the senders' clock jumps back by one hour, then forward", AT_HOME,
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
        "localization_gone", "no fix is received", AT_HOME, "onboard/navigation/ekf.py: the odometry carries the "
                                                            "estimate on",
        lambda scene: inputs.localization_gone(), FIXES,
    ),
    Fault(
        "goal_lost", "the goal is cancelled",
        Expectation(Reaction.STANDS, Aftermath.STAYS, reasons=("idle",), state="idle: cancelled"),
        "onboard/navigation/mission.py; R4 of onboard/safety/limits.py",
        lambda scene: inputs.Cancelled(),
    ),
    Fault(
        "goal_nan", "goals with NaN or infinite coordinates, in every tick", ON,
        "onboard/navigation/start_frame.py: the goal is refused and the drive continues",
        lambda scene: inputs.NonFiniteGoal(scene.config.dds.map_frame),
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
        Expectation(Reaction.STANDS, Aftermath.STAYS, decisions=1, reasons=("idle",),
                    state="stopped: engine failed: injected"),
        "onboard/policy/decision.py: a failed engine ends the drive", lambda scene: engine.FailingEngine(),
    ),
    Fault(
        "engine_nan", "every decision is NaN, and so is its memory",
        Expectation(
            Reaction.STANDS, Aftermath.STAYS, decisions=1, reasons=("idle",),
            state="stopped: engine failed: logits not finite"
        ),
        "fault_of() of onboard/policy/decision.py", lambda scene: engine.NanEngine(),
    ),
    Fault(
        "loop_blocked", "the event loop is busy for 300 ms",
        Expectation(Reaction.DRIVES, checks=(expectations.misses_counted, expectations.no_contact)),
        "grid() of onboard/values/clock.py: missed slots are skipped and counted", lambda scene: engine.BlockedLoop(),
        (Need.CLOCK,), process="pause",
    ),
    Fault(
        "base_deaf", "the base ignores all commands and stands, with its bumper pressed",
        Expectation(
            Reaction.HOLDS, Aftermath.STAYS, state="stopped: blocked: 2 recoveries"
        ),
        "R2 to R9 of onboard/safety/recovery.py: three attempts, then the recovery gives up",
        lambda scene: engine.DeafBase(),
        (Need.BASE,), lasts_s=6.0, sections=OFTEN,
    ),
    Fault(
        "drive_lost", "a command cannot be sent", Expectation(Reaction.HOLDS, Aftermath.LEAVES),
        "run() of onboard/runtime.py: the last command is zero, also after an error", lambda scene: engine.LostDrive(),
        (Need.BASE,),
    ),
    Fault(
        "peer_gone", "all messages over DDS stop, then resume",
        Expectation(
            Reaction.STANDS, timeouts=(WHEELS,), reasons=("stale_odometry", "stale_scan", "idle"),
            checks=(expectations.no_contact,),
        ),
        "R5 of onboard/safety/limits.py; onboard/navigation/mission.py: an input lost for 5 s ends the drive",
        lambda scene: inputs.SilentNetwork(),
        process="peer",
    ),
    Fault(
        "disk_full", "the disk accepts no more data from the recorder", ON,
        "onboard/recording/recorder.py: the recording ends with one reason, the drive continues", process="disk",
    ),
    # ---- people
    *LATE_MESSAGES,
    Fault(
        "obstacle_stuck", "the obstacle message stays true",
        Expectation(
            Reaction.NOT_FORWARD, Aftermath.STAYS, state="stopped: blocked: 2 recoveries",
            checks=(expectations.no_contact,), ahead=True,
        ),
        "R23 of onboard/safety/limits.py: no forward motion; R2 to R9 of recovery.py: three attempts, then it gives up",
        lambda scene: inputs.Notice(), needs=(Need.BASE,), lasts_s=8.0, sections=OFTEN,
    ),
    Fault(
        "held_turning", "the robot is held and can only turn; its bumper is pressed, and the policy wants to turn",
        Expectation(
            Reaction.NOT_FORWARD, Aftermath.STAYS, state="stopped: blocked: 2 recoveries"
        ),
        "R24 of onboard/safety/limits.py: turns slowly; R16 of recovery.py: blocked, however it turns",
        lambda scene: engine.HeldBase(), needs=(Need.BASE,), lasts_s=8.0, sections=OFTEN,
    ),
    Fault(
        "override_flood", "an operator's commands in every tick: random, too fast, not numbers",
        Expectation(Reaction.HOLDS), "R1, R3 and R6 of onboard/safety/limits.py",
        lambda scene: inputs.Flood(scene.seed), process="flood",
    ),
    Fault(
        "e_stop", "the e-stop is pressed, then released",
        Expectation(Reaction.STANDS, Aftermath.STAYS, reasons=("e_stop",), state="stopped: e_stop"),
        "R2 of onboard/safety/limits.py",
        lambda scene: inputs.EStop(),
    ),
    Fault(
        "e_stop_sender_gone", "the node that pressed the e-stop ends without releasing it",
        Expectation(Reaction.STANDS, Aftermath.STAYS, reasons=("e_stop",), state="stopped: e_stop"),
        "onboard/drivers/dds/latched_inputs.py: the last value of a lost writer stays in effect", process="e_stop",
    ),
    Fault(
        "speed_limit_nan", "the external speed limit is NaN", ON,
        "R19 of onboard/safety/limits.py: the limit is refused",
        lambda scene: inputs.NonFiniteSpeedLimit(),
    ),
)  # fmt: skip
