"""The table of faults: what is done to the robot, what must come of it, within how long, and which rule says so."""

from __future__ import annotations

from hil.faults import checks, engine_faults, input_faults
from hil.faults.fault import Fault, Need
from hil.faults.musts import During, Must, Then
from hil.faults.table_late import LATE as LATE_WORDS
from hil.faults.table_senses import ON, SENSES

OFTEN = {"recovery": {"blocked_s": 0.5, "backward_s": 0.5, "cool_down_s": 0.1}}
"""So that the tries of a recovery fit into seconds."""

WHEELS = "odometry.stale_ms"
LATE = Must(
    During.STANDS, decisions="rates.deadline_misses_to_stop", reasons=("engine_lost",),
    checks=(checks.slows_after_a_miss,),
)  # fmt: skip
AT_HOME = Must(During.DRIVES, checks=(checks.no_contact, checks.place_stays))
FIXES = (Need.FIXES,)

FAULTS: tuple[Fault, ...] = (
    *SENSES,
    # ---- wheels and clocks
    Fault(
        "odometry_stopped", "the wheels say nothing",
        Must(During.STANDS, timeouts=(WHEELS,), reasons=("stale_odometry",)), "R5 of limits.py",
        lambda scene: input_faults.NoOdometry(),
    ),
    Fault(
        "odometry_repeats", "the wheels say one message again and again",
        Must(During.STANDS, timeouts=(WHEELS,), reasons=("stale_odometry",)), "odometry.py: a repeat refreshes nothing",
        lambda scene: input_faults.wheels_repeat(),
    ),
    Fault(
        "odometry_late", "what the wheels say is under way for half a second longer, at its pace",
        Must(During.STANDS, timeouts=(WHEELS,), reasons=("stale_odometry",)),
        "odometry.py: as old as its stamp says; then R5 of limits.py", lambda scene: input_faults.LateWheels(),
    ),
    Fault(
        "odometry_zero", "the wheels say that nothing moves, with stamps that go on",
        Must(
            During.HOLDS, Then.STAYS, state="stopped: blocked: 3 recoveries",
            checks=(checks.backs_off_bounded, checks.no_contact),
        ),
        "R2 to R9 of recovery.py: for all that is known it is blocked; three tries, then it gives up",
        lambda scene: input_faults.wheels_zero(), needs=(Need.BASE,), lasts_s=6.0, sections=OFTEN,
    ),
    Fault(
        "odometry_jumps", "the base's own pose leaps by 2 m, and its twist is what is integrated", AT_HOME,
        "odometry.py: with source twist the pose is not looked at", lambda scene: input_faults.wheels_jump(),
        sections={"odometry": {"source": "twist"}},
    ),
    Fault(
        "odometry_jumps_pose", "the base's own pose leaps by 2 m, and it is what is integrated",
        Must(During.STANDS, Then.STAYS, reasons=("idle",), state="stopped: odometry refused: pose jumped"),
        "odometry.py: an impossible jump is refused", lambda scene: input_faults.wheels_jump(),
        sections={"odometry": {"source": "pose"}},
    ),
    Fault(
        "odometry_nan", "the wheels measure NaN",
        Must(During.STANDS, Then.STAYS, reasons=("idle",), state="stopped: odometry refused: v is nan"),
        "odometry.py: what is no number is refused", lambda scene: input_faults.wheels_nan(),
    ),
    Fault(
        "odometry_too_fast", "the wheels measure 30 m/s",
        Must(During.STANDS, Then.STAYS, reasons=("idle",), state="stopped: odometry refused: v is 30"),
        "odometry.py: what cannot be is refused", lambda scene: input_faults.wheels_too_fast(30.0),
    ),
    Fault(
        "time_backward", "the clock of the wheels runs backward",
        Must(During.STANDS, timeouts=(WHEELS,), reasons=("stale_odometry",)),
        "odometry.py: what goes back refreshes nothing; then R5 of limits.py",
        lambda scene: input_faults.ClockBackward(),
    ),
    Fault(
        "time_step_hour", "the clock of those who send steps forward by an hour, then back", AT_HOME,
        "odometry.py: the shorter of the stamps' and the arrivals' difference",
        lambda scene: input_faults.ClockStep(input_faults.HOUR_NS),
    ),
    Fault(
        "time_step_hour_back", "the clock of those who send steps back by an hour, then forward", AT_HOME,
        "odometry.py: a step back of more than a second is a new clock",
        lambda scene: input_faults.ClockStep(-input_faults.HOUR_NS),
    ),
    # ---- localisation and goals
    Fault(
        "localization_jump", "every fix is 2 m off", ON, "localization.py: outliers that agree start the filter anew",
        lambda scene: input_faults.localization_jumps(), FIXES, lasts_s=4.0,
    ),
    Fault(
        "localization_jump_once", "one fix is 2 m off", AT_HOME, "localization.py: an outlier changes nothing",
        lambda scene: input_faults.localization_jumps(1), FIXES,
    ),
    Fault(
        "localization_nan", "every fix is NaN", AT_HOME, "localization.py: refused and counted",
        lambda scene: input_faults.localization_nan(), FIXES,
    ),
    Fault(
        "localization_gone", "no fix comes", AT_HOME, "localization.py: the wheels carry the estimate",
        lambda scene: input_faults.localization_gone(), FIXES,
    ),
    Fault(
        "goal_lost", "the goal is withdrawn",
        Must(During.STANDS, Then.STAYS, reasons=("idle",), state="idle: cancelled"), "mission.py; R4 of limits.py",
        lambda scene: input_faults.Cancelled(),
    ),
    Fault(
        "goal_nan", "goals that are no place, in every tick", ON, "start.py: refused, the drive goes on",
        lambda scene: input_faults.MadGoal(scene.config.dds.map_frame),
    ),
    # ---- engine, loop, links
    Fault(
        "engine_slow", "every decision takes 200 ms longer",
        LATE,
        "pilot.py: half as fast after a miss, zero after three in a row",
        lambda scene: engine_faults.SlowEngine(),
    ),
    Fault(
        "engine_hangs", "a decision does not return", LATE,
        "inference.py: none begins before the last has returned; pilot.py", lambda scene: engine_faults.HungEngine(),
    ),
    Fault(
        "engine_fails", "every decision fails",
        Must(During.STANDS, Then.STAYS, decisions=1, reasons=("idle",), state="stopped: engine failed: injected"),
        "pilot.py: a failed engine ends the drive", lambda scene: engine_faults.FailingEngine(),
    ),
    Fault(
        "engine_nan", "every decision is NaN, its memory too",
        Must(
            During.STANDS, Then.STAYS, decisions=1, reasons=("idle",), state="stopped: engine failed: logits not finite"
        ),
        "pilot.py, fault_of()", lambda scene: engine_faults.NanEngine(),
    ),
    Fault(
        "loop_blocked", "the event loop is busy for 300 ms",
        Must(During.DRIVES, checks=(checks.misses_counted, checks.no_contact)),
        "scheduler.py, grid(): missed slots are skipped and counted", lambda scene: engine_faults.BlockedLoop(),
        (Need.CLOCK,), process="pause",
    ),
    Fault(
        "base_deaf", "the base stands, whatever it is told, and its bumper says that it is held",
        Must(During.HOLDS, Then.STAYS, state="stopped: blocked: 3 recoveries", checks=(checks.backs_off_bounded,)),
        "R2 to R9 of recovery.py: three tries, then it gives up", lambda scene: engine_faults.DeafBase(),
        (Need.BASE,), lasts_s=6.0, sections=OFTEN,
    ),
    Fault(
        "drive_lost", "a command cannot be sent", Must(During.HOLDS, Then.LEAVES),
        "runtime.py, run(): whatever ends it, the last command is zero", lambda scene: engine_faults.LostDrive(),
        (Need.BASE,),
    ),
    Fault(
        "peer_gone", "all that came over the wire stops, and comes back",
        Must(
            During.STANDS, timeouts=(WHEELS,), reasons=("stale_odometry", "stale_scan", "idle"),
            checks=(checks.no_contact,),
        ),
        "R5 of limits.py; mission.py: lost for 5 s ends the drive", lambda scene: input_faults.Silent(),
        process="peer",
    ),
    Fault(
        "disk_full", "the disk takes nothing more from the recorder", ON,
        "record.py: recording ends with one reason, driving goes on", process="disk",
    ),
    # ---- people
    *LATE_WORDS,
    Fault(
        "obstacle_stuck", "the notice of an obstacle stays on",
        Must(
            During.NOT_FORWARD, Then.STAYS, state="stopped: blocked: 3 recoveries",
            checks=(checks.backs_off_bounded, checks.no_contact), ahead=True,
        ),
        "R23 of limits.py: nothing forward; R2 to R9 of recovery.py: three tries, then it gives up",
        lambda scene: input_faults.Notice(), needs=(Need.BASE,), lasts_s=8.0, sections=OFTEN,
    ),
    Fault(
        "override_flood", "an operator's commands in every tick: any, too fast, no numbers",
        Must(During.HOLDS), "R1, R3 and R6 of limits.py", lambda scene: input_faults.Flood(scene.seed), process="flood",
    ),
    Fault(
        "e_stop", "the e-stop is pressed, then released",
        Must(During.STANDS, Then.STAYS, reasons=("e_stop",), state="stopped: e_stop"), "R2 of limits.py",
        lambda scene: input_faults.EStop(),
    ),
    Fault(
        "e_stop_sender_gone", "who pressed the e-stop is gone without a word",
        Must(During.STANDS, Then.STAYS, reasons=("e_stop",), state="stopped: e_stop"),
        "drivers/dds_alarm.py: a true whose writer is gone stays", process="e_stop",
    ),
    Fault(
        "speed_limit_nan", "the speed limit from outside is NaN", ON, "R19 of limits.py: refused",
        lambda scene: input_faults.MadSpeedLimit(),
    ),
)  # fmt: skip
