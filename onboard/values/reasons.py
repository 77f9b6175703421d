"""All reasons: why a command was changed, a drive ended, or a goal, a message or an image was refused.

Each has a row: a code that stays, a sentence, and what clears it. The code is not part of the sentence; `row_of` finds
it. So logs, `/diagnostics`, `onboard status`, the report and the evaluation name the code of any text, also of a
recorded one. `docs/reasons.md` is this table (`onboard reasons --markdown`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from string import Formatter
from typing import NewType

Said = NewType("Said", str)
"""A row's sentence with its details. Only this module makes it, so mypy finds a reason that has no row."""
NO_REASON = Said("")

JOIN = "; "
"""Between several reasons in one text."""
LONGEST, MOST = 1000, 8
"""Characters and reasons of a text that are looked at: it may hold what others sent, and a tick has no time."""
TOPIC = r"(?:/\S+ )?"
"""A sentence may follow the topic that it is about: `/odom jumped`, `/scan: its stamps go back`."""
BEFORE = re.compile(r"(?:(?:idle|navigating|recovering|stopped): )?(?:goal refused: )?", re.DOTALL)
"""What a published state has in front of its reason."""

LIMIT, RECOVERY, END, GOAL, ODOMETRY, FIX, INPUT, CAMERA, POLICY, MACHINE = KINDS = (
    "limit", "recovery", "end", "goal", "odometry", "fix", "input", "camera", "policy", "machine"
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """One reason. sentence: with `{details}` that differ from case to case; clears: "" if nothing is to be done."""

    code: str
    kind: str
    sentence: str
    clears: str
    pattern: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Add the row to the table."""
        pattern = "".join(
            re.escape(literal) + (f"(?P<{name}>.*?)" if name else "")
            for literal, name, _, _ in Formatter().parse(self.sentence)
        )
        object.__setattr__(self, "pattern", re.compile(TOPIC + pattern, re.DOTALL))
        if TABLE.setdefault(self.code, self) is not self:
            raise ValueError(f"two reasons have the code {self.code}")

    def say(self, **details: object) -> Said:
        """Return the sentence with its details. Raises KeyError for a missing detail."""
        return Said(self.sentence.format(**details))

    @property
    def named(self) -> Said:
        """The code in place of the sentence, which `row_of` knows too."""
        return Said(self.code)

    @property
    def general(self) -> str:
        """The sentence with the name of each detail in brackets."""
        return "".join(text + (f"[{name}]" if name else "") for text, name, _, _ in Formatter().parse(self.sentence))

    @property
    def fixed(self) -> int:
        """Return the length of what is the same in all cases."""
        return sum(len(literal) for literal, _, _, _ in Formatter().parse(self.sentence))


TABLE: dict[str, Row] = {}
"""All rows by their code, in the order of the page."""


def of_topic(topic: str, said: Said, mark: str = "") -> Said:
    """Return a sentence behind the topic that it is about. mark: between both, before a space"""
    return Said(f"{topic}{mark} {said}")


def joined(*said: Said) -> Said:
    """Return several sentences in one text, each once; empty ones are left out."""
    return Said(JOIN.join(dict.fromkeys(filter(None, said))))


def refused_goal(said: Said) -> Said:
    """Return why a goal was refused, as the published state shows it."""
    return Said(f"goal refused: {said}")


def row_of(text: str) -> Row | None:
    """Return the row of a code or of a sentence, or None. A sentence may have the state in front of it."""
    return _row_of(text[:LONGEST])


def rows_in(text: str) -> tuple[Row, ...]:
    """Return the rows of all reasons in a text, such as a published state with several faults."""
    return tuple(dict.fromkeys(row for row, _ in said_in(text)))


def said_in(text: str) -> tuple[tuple[Row, str], ...]:
    """Return the rows of all reasons in a text with what is said there, in words and without the state."""
    return _said_in(text[:LONGEST])


def in_words(state: str) -> str:
    """Return a published state with the sentence in place of a code: "stopped: the e-stop is pressed, ..."."""
    first, *others = state.split(JOIN)
    word, mark, said = first.partition(": ")
    worded = [f"{word}{mark}{_worded(said)}", *map(_worded, others)]
    return JOIN.join(worded)


def _worded(text: str) -> str:
    return TABLE[text].general if text in TABLE else text


@lru_cache(maxsize=512)
def _row_of(text: str) -> Row | None:
    text = text[BEFORE.match(text).end() :]  # type: ignore[union-attr]  # it matches any text
    if text in TABLE:
        return TABLE[text]
    return next((row for row in _MOST_FIXED if row.pattern.fullmatch(text)), None)


@lru_cache(maxsize=512)
def _said_in(text: str) -> tuple[tuple[Row, str], ...]:
    return tuple(_rows_of(text.split(JOIN, MOST - 1)))


def _rows_of(parts: list[str]) -> Iterator[tuple[Row, str]]:
    while parts:
        found = ((end, row_of(JOIN.join(parts[:end]))) for end in range(1, len(parts) + 1))
        end, row = next((one for one in found if one[1] is not None), (1, None))
        if row is not None:
            said = JOIN.join(parts[:end])
            yield row, _worded(said[BEFORE.match(said).end() :])  # type: ignore[union-attr]  # it matches any text
        parts = parts[end:]


# ---- What shaped a command: `onboard.safety.limits.Reason` in `/diagnostics`, row `command`, and in recordings
# fmt: off

NO_ORIENTATION = (
    "its orientation is not a unit quaternion of an upright base (the norm of x, y, z, w must be 0.9 to 1.1): "
    "does its driver leave it empty, or leave out w?"
)
GO, FREE = "Send a goal again.", "Clear the space ahead, or send a goal in another direction"
ASK = "`onboard status` names the input"
NONE = Row("none", LIMIT, "the command is sent as wanted", "")
Row("idle", LIMIT, "there is no goal, so the robot stands", "Send a goal.")
PAUSED = Row("paused", LIMIT, "paused, so the robot stands and keeps its goal",
             "Run `onboard resume`, or send False on `/onboard/pause`.")
Row("engine_lost", LIMIT, "decisions of the policy are late or missing, so the robot stands",
    "Ends with the next decision in time. If it repeats, see the load of this machine (`top`) and `onboard bench`.")
E_STOP = Row("e_stop", LIMIT, "the e-stop is pressed, or no goal was accepted since its release, so the robot stands",
             "Release the e-stop, then send a goal.")
Row("teleop", LIMIT, "an operator drives",
    "Stop sending operator commands; the policy drives after `limits.teleop_dead_man_s`.")
Row("stale_odometry", LIMIT, "odometry is missing or stale, so the robot stands",
    f"Start or repair the base's driver; {ASK}.")
Row("stale_scan", LIMIT, "the limits' scan is missing or stale, so the robot stands",
    f"Start or repair the laser or the cameras; {ASK}.")
Row("stale_policy_scan", LIMIT, "the policy's scan is missing or stale, so the robot stands",
    f"Start or repair the laser or the cameras; {ASK}.")
Row("not_finite", LIMIT, "the wanted command is NaN or infinite, so the robot stands",
    "Check the policy's model, or the sender of operator commands.")
Row("speed", LIMIT, "limited to the robot's highest speed", "`limits.v_max_mps`, `v_min_mps` and `w_max_radps` set it.")
Row("acceleration", LIMIT, "limited in acceleration",
    "Ends by itself. `limits.acceleration_mps2` and `angular_acceleration_radps2` set it.")
Row("speed_limit", LIMIT, "limited by the external speed limit",
    "Send another value on `/speed_limit`; 0 ends the limit.")
Row("zone_stop", LIMIT, "limited so that the robot stops before an obstacle", f"{FREE} (`limits.stop_margin_m`).")
Row("zone_slow", LIMIT, "slowed near an obstacle", f"{FREE} (`limits.slow_margin_m`).")
Row("time_to_contact", LIMIT, "slowed, as an obstacle would be reached within `limits.time_to_contact_s`", f"{FREE}.")
Row("blind_ahead", LIMIT, "limited towards ground that no camera sees",
    "The robot turns to look. If it keeps turning, see the blind sectors of `onboard check-config`.")
Row("blind_flank", LIMIT, "slowed because no camera looks beside the path",
    "`onboard check-config` shows the blind sectors; more cameras end it.")
Row("remembered", LIMIT, "limited by a remembered obstacle where no camera looks now",
    "Ends when a camera sees the place free, or `limits.remember_s` after it was last seen.")
Row("crossing", LIMIT, "limited so that the robot stops before the path of something that moves",
    "Ends when it has passed, or stands still.")
Row("obstacle", LIMIT, "no forward speed while an obstacle is reported",
    "Clear the bumper or the cliff sensor; ends when its driver sends False on `/obstacle`.")
Row("keep_out", LIMIT, "limited so that the robot stops before a keep-out zone of the map",
    "Send a goal outside the zone. In a zone an operator may creep (`zones.keep_out`).")
Row("speed_zone", LIMIT, "limited by a speed zone of the map", "Ends outside the zone (`zones.speed`).")
Row("overload", LIMIT, "slowed, as this machine misses ticks", "End other programs on it (`top` shows them).")
Row("looking", LIMIT, "turns to look where no camera sees ahead", "Ends by itself.")

# ---- Backing off, as the event `recovery` of the log and of recordings

Row("recovery_began", RECOVERY, "the robot is blocked and tries to free itself", "Ends by itself.")
Row("recovery_ended", RECOVERY, "the robot has freed itself, and the policy drives on", "")
Row("recovery_cut_short", RECOVERY, "backing off ended early, as something is behind or another command took over", "")
Row("recovery_rear_not_free", RECOVERY,
    "the robot is blocked, and cannot back off: the space behind is not free, or no sensor sees it",
    "Clear the space behind (`recovery.rear_clearance_m`), or drive the robot away by hand.")
Row("recovery_gave_up", RECOVERY, "all recoveries failed, so the drive ends", "Free the robot, then send a goal.")

# ---- Ends of a drive, behind the state `stopped` or `idle`

Row("reached", END, "the robot rests within `goal.tolerance_m` of the goal", "")
REACHED_UNCERTAIN = Row("reached_uncertain", END, "uncertain by {off_m:.2f} m", "Localise the robot (`/amcl_pose`): by "
                        "odometry alone it drifts.")
CANCELLED = Row("cancelled", END, "cancelled", "Send a goal.")
RUNTIME_ENDED = Row("runtime_ended", END, "the runtime has ended",
                    "Start it: `systemctl start onboard`, or `onboard run`.")
INPUT_LOST = Row("input_lost", END, "input lost for {seconds:g} s{input}", f"{ASK}. Restore it, then send a goal.")
NO_PROGRESS = Row("no_progress", END, "no progress towards the goal for {seconds:g} s",
                  "Clear the path, or send another goal (`goal.progress_timeout_s`).")
OUT_OF_TIME = Row("out_of_time", END, "goal not reached within {seconds:g} s",
                  "Send the goal again, or raise `goal.timeout_s`.")
GOAL_OCCUPIED = Row("goal_occupied", END, "goal is occupied", "Clear the goal, or send another one.")
GOAL_ENCLOSED = Row("goal_enclosed", END, "goal cannot be reached: no gap of {wide_m:.2f} m between the obstacles "
                    "around it", "Open a path to the goal, or send another one.")
POLICY_STOPPED = Row("policy_stopped", END, "the policy stopped {away_m:.2f} m from the goal", GO)
BATTERY_EMPTY = Row("battery_empty", END, "the battery is at {percent:.0f} %, limit {limit:.0f} % "
                    "(limits.battery_min)", "Charge the battery, then send a goal.")
HEADING_MISSED = Row("heading_missed", END, "the goal is reached, but {deg:.0f} deg from its heading after "
                     "{seconds:g} s", "Clear the space around the robot, then send the goal again.")
BLOCKED = Row("blocked", END, "blocked: {tries} recoveries in {window_s:g} s failed",
              "Free the robot, or drive it away by hand, then send a goal.")
ENGINE_SILENT = Row("engine_silent", END, "engine failed: no decision for {seconds:g} s",
                    "Send the goal again. If it repeats, `onboard bench` measures the policy on this machine.")
ENGINE_FAILED = Row("engine_failed", END, "engine failed: {why}",
                    "Send the goal again. If it repeats, check the model: `onboard doctor`.")

# ---- Refusals of a goal

GOAL_LATE = Row("goal_late", GOAL, "the goal is {late_s:.1f} s late (limit {limit_s:g} s), or its sender's clock was "
                "set back", "Send it again. Check the network and the clock of the sender.")
GOAL_AT_E_STOP = Row("goal_at_e_stop", GOAL, "the e-stop is pressed", "Release the e-stop, then send the goal again.")
GOAL_AT_RELEASE = Row("goal_at_release", GOAL, "the e-stop has only just been released", GO)
GOAL_WITHOUT_ODOMETRY = Row("goal_without_odometry", GOAL, "there is no odometry yet",
                            "Start the base's driver. `onboard status` shows what is missing.")
GOAL_NOT_FINITE = Row("goal_not_finite", GOAL, "{axis} of the goal is {value}, not a finite number",
                      "Send finite coordinates.")
GOAL_NO_ORIENTATION = Row("goal_no_orientation", GOAL, f"{NO_ORIENTATION} All zero means any heading",
                          "Set w too, or all four to 0 for any heading.")
GOAL_NOT_LOCALISED = Row("goal_not_localised", GOAL, "frame {frame!r} needs a localised robot, and {why}",
                         "Localise the robot (`/amcl_pose`), or send the goal in another frame.")
GOAL_FRAME = Row("goal_frame", GOAL, "unknown frame {frame!r}, known are {known}", "Send it in one of these frames.")
GOAL_TOO_FAR = Row("goal_too_far", GOAL, "the goal is {away_m:.4g} m away, limit {limit_m:g} m (goal.max_distance_m)",
                   "Send a closer goal, or raise `goal.max_distance_m`.")
GOAL_BATTERY_LOW = Row("goal_battery_low", GOAL, "the battery is at {percent:.0f} %, new goals need {limit:.0f} % "
                       "(limits.battery_min)", "Charge the battery, then send the goal again.")
GOAL_TOO_MANY = Row("goal_too_many", GOAL, "a sequence of more than {most} poses", "Send fewer poses.")
MAP_WITHOUT_ROBOT = Row("map_without_robot", GOAL, "the map (map.file) has no ground to drive on near the robot at "
                        "({x_m:.2f}, {y_m:.2f})", "Correct the localisation, or the map.")
GOAL_OUT_OF_REACH = Row("goal_out_of_reach", GOAL, "the map (map.file) shows {what} at ({x_m:.2f}, {y_m:.2f}); "
                        "the nearest place that can be reached is ({near_x_m:.2f}, {near_y_m:.2f})",
                        "Send that place, or another goal. If the building has changed, correct the map.")
GOAL_TOO_EARLY = Row("goal_too_early", GOAL, "the service is not ready yet",
                     "Wait for READY (`systemctl status onboard`), then send it again.")

# ---- Odometry: refused messages end the drive; the others say what is done with them

DRIVER = "Correct the base's driver"
ODOMETRY_NOT_FINITE = Row("odometry_not_finite", ODOMETRY, "odometry refused: {name} is {value}",
                          f"{DRIVER}, then send a goal.")
ODOMETRY_TOO_FAST = Row("odometry_too_fast", ODOMETRY, "odometry refused: {name} is {value:g} {unit}, "
                        "limit {limit:g} ({key})", f"{DRIVER} or the limit, then send a goal.")
ODOMETRY_TOO_FAR = Row("odometry_too_far", ODOMETRY, "odometry refused: {name} is {value:g}, limit {limit:g}",
                       f"{DRIVER}, then send a goal.")
ODOMETRY_NO_POSE = Row("odometry_no_pose", ODOMETRY, "odometry refused: no pose in the message, or it is all zero, the "
                       "orientation too (odometry.source is pose)", "Have the driver fill the pose, or set "
                       '`odometry.source = "twist"`.')
ODOMETRY_NO_ORIENTATION = Row("odometry_no_orientation", ODOMETRY, f"odometry refused: {NO_ORIENTATION}",
                              f"{DRIVER}, then send a goal.")
ODOMETRY_POSE_JUMPED = Row("odometry_pose_jumped", ODOMETRY, "odometry refused: pose jumped {moved_m:.2f} m in "
                           "{ms:.0f} ms, limit {limit:g} m/s",
                           "Send a goal if the base reset its odometry; otherwise repair its driver.")
ODOMETRY_POSE_TURNED = Row("odometry_pose_turned", ODOMETRY, "odometry refused: pose turned {rad:.2f} rad in "
                           "{ms:.0f} ms, limit {limit:g} rad/s",
                           "Send a goal if the base reset its odometry; otherwise repair its driver.")
ODOMETRY_CONTRADICTS = Row("odometry_contradicts_itself", ODOMETRY, "contradicts itself: {how}: {remedy}",
                           "Correct the driver or `odometry.source`; then drive 1 m by hand, and send a goal.")
ODOMETRY_DOUBT = Row("odometry_twist_unused", ODOMETRY, "contradicts itself: {how}: the twist is not used "
                     "(odometry.source is pose)", "The robot drives on by the pose. Correct the twist in the driver.")
ODOMETRY_JUMPED = Row("odometry_jumped", ODOMETRY, "jumped: its pose moved {moved_m:.2f} m and turned {deg:.0f} deg in "
                      "{ms:.0f} ms, its twist says {twist_m:.2f} m: did the base reset its odometry? Send a goal in "
                      "its odom frame again", GO)
ODOMETRY_CLOCK_SET = Row("odometry_clock_set", ODOMETRY, "stamps jumped by {by_s:+.2f} s against their arrival (limit: "
                         "+{limit:g} s, none back): was its clock set, or its driver restarted?",
                         "Ends by itself. Synchronise the clock of the base.")
IMU_SILENT = Row("imu_silent", ODOMETRY, "IMU: no usable message for {ms} ms, the wheels turn alone",
                 "Start its driver; its frame must be in /tf_static, or state `odometry.imu_rpy_deg`.")
IMU_AGAINST = Row("imu_against_wheels", ODOMETRY, "IMU: it turns {ratio:.1f} times as the wheels do, so the other way: "
                  "it is not used", "Correct `odometry.imu_rpy_deg` or its frame in tf, then start again.")
IMU_UNIT = Row("imu_other_unit", ODOMETRY, "IMU: it turns {ratio:.1f} times as the wheels do: it is not used",
               "Have its driver send rad/s, then start again.")
IMU_IDLE = Row("imu_idle", ODOMETRY, "IMU: it turns {percent:.0f} % of what the wheels do, so they turn alone",
               "Free the robot if its wheels spin. Otherwise correct `odometry.imu_rpy_deg`: is z another axis?")
ODOMETRY_NONE = Row("odometry_none", ODOMETRY, "no message yet", "Start the base's driver.")
ODOMETRY_LATE = Row("odometry_late", ODOMETRY, "latency {ms} ms: a clock was changed, or messages queue",
                    "Check the clock and the network of the base.")

# ---- Fixes of a localisation: a refused fix changes nothing

LOCALISATION = "Correct what the localisation publishes; the robot goes on without this fix."
FIX_NOT_FINITE = Row("fix_not_finite", FIX, "localisation refused: {name} is {value}", LOCALISATION)
FIX_TOO_FAR = Row("fix_too_far", FIX, "localisation refused: {name} is {value:g}, limit {limit:g}", LOCALISATION)
FIX_NO_ORIENTATION = Row("fix_no_orientation", FIX, f"localisation refused: {NO_ORIENTATION}", LOCALISATION)
FIX_BEFORE_ODOMETRY = Row("fix_before_odometry", FIX, "localisation refused: there is no odometry yet",
                          "Start the base's driver.")
SHARES = "{explained:.0f} % of the scan's points lie on obstacles of the map, {through:.0f} % of its rays go through"
LOST = Row("lost", FIX, f"lost: {SHARES}",
           "The robot stands. `onboard locate` searches its place; or send `/initialpose`. Then the drive goes on.")
LOST_STANDS = Row("lost_stands", FIX, "lost in the map, so the robot stands: `onboard locate`, or send /initialpose",
                  "State where it is: `onboard locate`, or `/initialpose`. Then the drive goes on.")
NOT_LOCATED = Row("not_located", FIX, "not located in the map: `onboard locate`, or send /initialpose",
                  "State where it is: `onboard locate`, or `/initialpose`. Goals in the map are refused until then.")
SECOND_LOCALISATION = Row("second_localisation", FIX, "{topic} is published, but map.tracker = true: a robot has one "
                          "localisation", "End the other localisation, or set `map.tracker = false`.")
MAP_DISAGREES = Row("map_disagrees", FIX, f"map and scan disagree, so the robot drives as without a map: {SHARES}",
                    "Correct the localisation, or the map (`map.file`).")
SCANS_UNMATCHED = Row("scans_unmatched", FIX, "most scans do not match: few walls in view, or mounts or wheels are not "
                      "as configured", "Check `mounts.toml` and `odometry.correction`.")

# ---- Inputs and the link to the base: the robot does not drive for them, or does not hear what is sent

PUBLISH = "Start or repair its publisher or device"
WAITING = Row("waiting", INPUT, "waiting for {missing}", f"{PUBLISH}. `onboard doctor` looks for it.")
SECOND_PUBLISHER = Row("second_publisher", INPUT, "second publisher on {topics}: {who}",
                       "Stop one of them, or give it another topic; the robot drives on by itself.")
NEWER_MAP = Row("newer_map", INPUT, "{topic} is another map now than the one taken at the start",
                "The robot keeps its own. Restart the runtime to take the new one (`map.topic`).")
OTHER_TYPE = Row("other_type", INPUT, "{end}, ours is {ours}: {remedy}",
                 "Change the type that the other program uses, or remap its topic.")
OTHER_DRIVER = Row("other_driver", INPUT, "another program commands this robot, so the robot stands{who}",
                   "Stop the other program, then send a goal (`dds.other_drivers`).")
OTHER_OBEYED = Row("other_driver_obeyed", INPUT, "another program commands this robot: the base follows "
                   "the newest command", "Stop the other program (`dds.other_drivers`).")
NO_BASE = Row("no_base", INPUT, "no base listens to {topic}: {remedy}", "Start the base's driver.")
SCAN_NONE = Row("scan_none", INPUT, "no scan yet: {sources}", f"{PUBLISH}.")
SCAN_STALE = Row("scan_old", INPUT, "scan is {age_ms:.0f} ms old, limit {limit_ms:g} ms: {sources}", f"{PUBLISH}.")
SCAN_SLOW = Row("scan_slow", INPUT, "{hz:.1f} scans a second, {needed_hz:g} needed: {sources}",
                "Publish it faster, or raise `limits.scan_stale_ms`.")
SCAN_REFUSED = Row("scan_refused", INPUT, "scan refused: {why}", "Correct the laser's driver.")
BINS_BLIND = Row("bins_blind", INPUT, "{blind} of {bins} bins are blind: {why}",
                 "Point a camera in these directions, or set `scan.no_return` for a laser.")
ALL_SEEN = Row("all_seen", INPUT, "all bins are seen", "")
STAMPS_SAME = Row("stamps_same", INPUT, "the stamps of all messages are {stamp}: its driver must set header.stamp "
                  "({key} needs it)", "Correct the stamps in the driver.")
STAMPS_RARE = Row("stamps_rare", INPUT, "its stamps change only every {step_s:.2f} s: its driver must set header.stamp "
                  "({key} needs it)", "Correct the stamps in the driver.")
STAMPS_BACKWARD = Row("stamps_backward", INPUT, "its stamps jump back repeatedly: its driver must take header.stamp "
                      "from a single clock ({key})", "Correct the stamps in the driver.")
MESSAGES_FEW = Row("messages_few", INPUT, "{hz:.1f} messages a second, {needed_hz:.3g} needed ({key}): publish it "
                   "faster", "Publish it faster, or raise the limit.")
MESSAGES_LATE = Row("messages_late", INPUT, "its messages are {late_ms:.0f} ms later than the quickest one ({key}): "
                    "they queue on their way", "Reduce the traffic on the network, or the load of the sender.")
CLOCK_SLOW = Row("clock_slow", INPUT, "its stamps advance at {pace:.2f} of real time: for a simulated clock set "
                 "{judge_key} = false; otherwise messages queue on their way",
                 "Set the key for a simulator; otherwise reduce the load of sender and network.")

# ---- Cameras that do not work, and scans that are held back

RETRY = "Ends by itself; if not, check the cable and `onboard cameras`."
UNCHANGED = Row("unchanged", CAMERA, "the image stayed identical while the robot drove {way_m:.2f} m (limit "
                "{limit_m:g} m)", "Restart the sensor or its driver (`cameras.unchanged_m`).")
COVERED = Row("covered", CAMERA, "covered: {percent:.1f} % valid pixels, limit {limit:g} %",
              "Uncover and clean the camera; check the light.")
IMAGE_NONE = Row("image_none", CAMERA, "no image yet", f"{PUBLISH}.")
IMAGE_STALE = Row("image_old", CAMERA, "no image for {age_ms:.0f} ms, limit {limit_ms:.0f} ms{late}", f"{PUBLISH}.")
IMAGE_REFUSED = Row("image_refused", CAMERA, "image refused: {why}", "Correct the camera's driver.")
LENS_CHANGED = Row("lens_changed", CAMERA, "{topic} states {size}, fx {fx:g}; at the start {was}, fx {was_fx:g}",
                   "Start the runtime again: was the camera or its mode changed?")
IMAGE_WITHHELD = Row("image_withheld", CAMERA, "second publisher on {topic}", "Stop one of the publishers.")
CAMERA_NOT_STARTED = Row("camera_not_started", CAMERA, "not started", "Ends by itself.")
CAMERA_STARTING = Row("camera_starting", CAMERA, "starting", "Ends by itself.")
CAMERA_RESTARTING = Row("camera_restarting", CAMERA, "restarting, attempt {attempt}{cause}", RETRY)
CAMERA_ENDED = Row("camera_ended", CAMERA, "process ended", RETRY)
CAMERA_SILENT = Row("camera_silent", CAMERA, "no frame for {silent_s:.1f} s", RETRY)
CAMERA_KILLED = Row("camera_killed", CAMERA, "no frame for {silent_s:.1f} s, killed", RETRY)
CAMERA_RECORDING_ENDED = Row("camera_recording_ended", CAMERA, "recording ended after {frames} frames", "")
CAMERA_RECORDING_FAILED = Row("camera_recording_failed", CAMERA, "recording cannot be played: {why}",
                              "Choose another file in `cameras.sources`.")
CAMERA_CLOSED = Row("camera_closed", CAMERA, "closed", "")

# ---- The policy

FALLBACK = Row("fallback", POLICY, "{fallback} drives: {why}", "Ends when there are fixes, and the cameras see ahead.")
DECISIONS_LATE = Row("decisions_late", POLICY, "late decisions",
                     "Check the load of this machine (`top`); `onboard bench` measures the policy.")
SEQUENCE_START = Row("sequence_start", POLICY, "the memory is reset, as a sequence of decisions begins", "")
DECISION_GAP = Row("decision_gap", POLICY, "the memory is reset, as there was no decision for too long", "")
PERIOD = Row("period", POLICY, "the memory is reset, as its period has passed", "")

# ---- Why a robot stands that nothing else hinders

TURNS_TO_HEADING = Row("turns_to_heading", POLICY, "at the goal, but it does not turn to the goal's heading",
                       "Clear the wheels and the space around the robot. The drive ends 20 s after the turn began.")
WAITS_FOR_FIX = Row("waits_for_fix", POLICY, "at the goal, but its position is uncertain, so the robot looks about",
                    "Ends by itself after 10 s. Check the localisation (`goal.arrival_confidence`).")
NO_MOTION_WANTED = Row("no_motion_wanted", POLICY, "the policy wants no motion here",
                       "Ends by itself: the robot drives on, or the drive ends (`goal.progress_timeout_s`).")
BASE_STANDS = Row("base_stands", POLICY, "the base is commanded to move, but its wheels stand",
                  "Are its motors on, its wheels free? After `recovery.blocked_s` the robot tries to free itself.")

# ---- This machine and the recording

TICKS_MISSED = Row("ticks_missed", MACHINE, "{missed} of the last {window} ticks were missed, so the robot drives at "
                   "{percent} % of its speed: this machine is overloaded",
                   "End other programs on it (`top` shows them).")
LIMIT_REFUSED = Row("speed_limit_refused", MACHINE, "{value} m/s is no speed limit, so the one before stays in force",
                    "Send a limit of 0 or more on `/speed_limit`; 0 ends it.")
RECORDING_STOPPED = Row("recording_stopped", MACHINE, "{file}: recording stopped: {why}",
                        "Free space on the disk, then restart the runtime. The drive goes on.")
RECORDING_SLOW = Row("recording_slow", MACHINE, "{file}: the disk needs more than {seconds:g} s to write the rest",
                     "Run `onboard repair`. Use a faster disk.")
RECORDING_DROPPED = Row("recording_dropped", MACHINE, "dropped: {why}",
                        "Use a faster disk, or record fewer images (`record`).")

# fmt: on
STOPPED_BY_OPERATOR = (CANCELLED, E_STOP, GOAL_AT_E_STOP, GOAL_AT_RELEASE)
"""A person ended the drive, so a route ends too: it must not drive on by itself after the e-stop's release."""
_MOST_FIXED = sorted(TABLE.values(), key=lambda row: -row.fixed)
"""Rows with the longest fixed part first: they are the most specific ones."""
