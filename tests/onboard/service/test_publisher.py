"""Published topics: the rate of each topic, and the rows of the diagnostics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onboard.counters import Counters
from onboard.navigation.ekf import LocalizationState
from onboard.navigation.map_tracking import MapTracking
from onboard.navigation.odometry import NS_PER_MS
from onboard.navigation.scan_odometry import ScanOdometry
from onboard.navigation.wheel_motion import is_moving
from onboard.policy.contract import ACTIONS
from onboard.recording.recorder import RecorderStats
from onboard.recording.scene import WHY, is_e_stopped
from onboard.service.publisher import (
    ERROR,
    OK,
    STANDS_S,
    WARNING,
    Publisher,
    faulty_rows,
    rows,
    status_line,
    with_codes,
)
from onboard.values.interfaces import Diagnostic, InputFault
from onboard.values.messages import BINS, STOP, CameraHealth, Pose, Scan
from tests.rigs.runtime_bench import FORWARD, LEFT, Bench, Puppet

WORKS = CameraHealth("front", True, "", 40, 0, {"valid_fraction": 0.9})
DOWN = CameraHealth("rear", False, "unplugged", 3, 2)


def recorder(**changes: Any) -> RecorderStats:
    fresh: dict[str, Any] = {
        "written": 10,
        "dropped": 0,
        "bytes": 1000,
        "queued": 1,
        "queued_bytes": 5,
        "file": Path("a.mcap"),
        "stopped": "",
        "last_problem": "",
        "repaired": (),
    }
    return RecorderStats(**(fresh | changes))


class RecordedOutputs:
    """`interfaces.Outputs` that records all messages."""

    def __init__(self) -> None:
        self.times: Counter[str] = Counter()
        self.states: list[str] = []
        self.poses: list[tuple[Pose, Pose | None]] = []
        self.newest: Sequence[Diagnostic] = ()
        self.drives: list[Diagnostic] = []

    def scan(self, scan: Scan, stamp_ns: int) -> None:
        self.times["scan"] += 1

    def limits_scan(self, scan: Scan, stamp_ns: int) -> None:
        self.times["limits_scan"] += 1

    def state(self, text: str) -> None:
        self.states.append(text)

    def diagnostics(self, entries: Sequence[Diagnostic], stamp_ns: int) -> None:
        self.times["diagnostics"] += 1
        self.newest = entries

    def transforms(self, odom_from_base: Pose, map_from_odom: Pose | None, stamp_ns: int) -> None:
        self.poses.append((odom_from_base, map_from_odom))

    def cameras(self, stamp_ns: int) -> None:
        self.times["cameras"] += 1

    def drive(self, row: Diagnostic, stamp_ns: int) -> None:
        self.times["drive"] += 1
        self.drives.append(row)


class PublisherBench:
    """A listener that publishes every tick."""

    def __init__(self) -> None:
        self.outputs = RecordedOutputs()
        self.asked = 0
        self.faults: list[InputFault] = []
        self._publisher = Publisher(self.outputs)

    def tick(self, record: Any, counters: Counters) -> None:
        self._publisher.publish(record, counters, self._cameras, recorder(), faults=self.faults)

    def _cameras(self) -> list[CameraHealth]:
        self.asked += 1
        return [WORKS, DOWN]


def test_each_message_goes_out_at_its_rate() -> None:
    listener = PublisherBench()
    Bench(listeners=[listener]).seconds(20.0)
    assert len(listener.outputs.poses) == 600
    assert listener.outputs.times == {"scan": 200, "diagnostics": 20, "cameras": 20, "drive": 60}
    assert listener.outputs.states == ["idle"] * 20
    assert listener.asked == 20, "the cameras are asked with the diagnostics only"


def test_the_drive_is_reported_at_once_by_the_stamp_of_its_goal() -> None:
    listener = PublisherBench()
    bench = Bench(listeners=[listener])
    bench.ticks(5)
    bench.ask()
    tick = bench.tick()
    name, level, text, values = listener.outputs.drives[-1]
    stamp = tick.inputs.goals[0].stamp_ns
    assert (name, level, text) == ("drive", 0, "navigating")
    expected = {"goal": stamp, "state": "navigating", "refused": 0, "paused": False, "goals_left": 1, "distance_m": 5.0}
    assert {key: values[key] for key in expected} == expected
    bench.ask(frame="mars")
    refused = bench.tick().inputs.goals[0].stamp_ns
    values = listener.outputs.drives[-1][3]
    assert (values["goal"], values["refused"]) == (stamp, refused)
    assert str(values["refusal"]).startswith("unknown frame 'mars'")
    bench.alter = lambda inputs: replace(inputs, cancel=True)
    for pressed in (None, True, False):
        bench.tick()
        assert is_e_stopped(listener.outputs.drives[-1][3]) is (pressed is not None)
        bench.e_stop, bench.alter = not pressed, lambda inputs: inputs


def test_both_scans_go_out_where_they_differ() -> None:
    listener = PublisherBench()
    Bench(listeners=[listener], limits_scan={"cameras": ["front"]}).seconds(1.0)
    assert (listener.outputs.times["scan"], listener.outputs.times["limits_scan"]) == (10, 10)


@pytest.mark.parametrize(("table", "published"), [("scan", (5, 14)), ("limits_scan", (14, 5))])
def test_a_scan_whose_source_is_silent_is_not_said_again(table: str, published: tuple[int, int]) -> None:
    listener = PublisherBench()
    other = "limits_scan" if table == "scan" else "scan"
    bench = Bench(listeners=[listener], **{table: {"topic": "lidar"}, other: {"cameras": ["front"]}})
    bench.ticks(2)
    lidar: dict[str, Scan] = {}
    bench.alter = lambda inputs: replace(inputs, scans=dict(lidar))
    for tick in range(40):
        if tick < 12:  # the last of these goes out two ticks late
            lidar["lidar"] = Scan(bench.clock.now_ns(), np.full(BINS, 2.0, np.float32), np.ones(BINS, bool))
        bench.tick()
    assert (listener.outputs.times["scan"], listener.outputs.times["limits_scan"]) == published


def test_a_new_state_goes_out_in_its_tick() -> None:
    listener = PublisherBench()
    bench = Bench(Puppet(LEFT), listeners=[listener])
    bench.ticks(7)
    bench.ask()
    bench.tick()
    assert listener.outputs.states == ["idle", "navigating"]
    bench.e_stop = True
    bench.tick()
    assert listener.outputs.states[-1] == "stopped: e_stop"


STAND = ACTIONS.index(STOP)


def sticks(bench: Bench) -> None:
    bench.stuck = True


def at_a_heading(bench: Bench) -> None:
    """Turn in place at the goal on wheels that do not."""
    state = bench.runtime.state
    mission = replace(state.mission, turning_ns=bench.clock.now_ns(), heading_rad=1.5, goal_xy_m=(0.0, 0.0))
    bench.runtime.state = replace(state, mission=mission)
    bench.stuck = True


#   the policy's action, what happens, codes of which one must be said
STANDING: list[tuple[Any, Callable[[Bench], None], set[str]]] = [
    (STAND, lambda bench: None, {"no_motion_wanted", "policy_stopped"}),
    (FORWARD, sticks, {"base_stands"}),
    (FORWARD, at_a_heading, {"turns_to_heading"}),
    (FORWARD, lambda bench: bench.wall("front", 300), {"zone_stop", "remembered"}),
    (FORWARD, lambda bench: setattr(bench, "obstacle", True), {"obstacle"}),
    (FORWARD, lambda bench: setattr(bench, "e_stop", True), {"e_stop"}),
    (FORWARD, lambda bench: setattr(bench, "reports", False), {"stale_odometry", "input_lost"}),
]


@pytest.mark.parametrize(("action", "happens", "codes"), STANDING, ids=range(len(STANDING)))
def test_a_robot_that_stands_on_a_drive_always_says_why(
    action: int, happens: Callable[[Bench], None], codes: set[str]
) -> None:
    listener = PublisherBench()
    bench = Bench(Puppet(action), listeners=[listener]).driving()
    happens(bench)
    bench.seconds(0.5)
    silent_s, said = 0.0, set[str]()
    for _ in range(240):
        record = bench.tick()
        values = listener.outputs.drives[-1][3]
        twist = record.odometry.twist
        stands = record.command == STOP or not is_moving(twist.v_mps, twist.w_radps)
        silent_s = silent_s + 1 / 30 if stands and not values[WHY] else 0.0
        assert silent_s < STANDS_S + 1.5, record.state
        said |= set(str(values[WHY]).split(", ")) if stands else set()
    assert said & codes


class TrackedBench(PublisherBench):
    """A listener that publishes ticks of a tracker in a given state."""

    def __init__(self, tracking: MapTracking, pose: Pose | None) -> None:
        super().__init__()
        self._tracking, self._place = tracking, LocalizationState(map_from_base=pose)

    def tick(self, record: Any, counters: Counters) -> None:
        after = replace(record.after, tracking=self._tracking, localization=self._place)
        super().tick(replace(record, after=after), counters)


HERE = Pose(1.0, 2.0, 0.0)
#   tracking                                place  state begins with                           reason of the row
TRACKED = [
    (MapTracking(tracks=True), HERE, "idle", ""),
    (MapTracking(tracks=True), None, "idle; not located in the map: `onboard locate`", "not_located"),
    (MapTracking(tracks=True, lost=True), HERE, "idle; lost in the map, so the robot stands: `onboard locate`", "lost"),
    (MapTracking(lost=True), HERE, "idle", "map_disagrees"),
    (MapTracking(), None, "idle", ""),
]


@pytest.mark.parametrize(("tracking", "pose", "state", "code"), TRACKED)
def test_the_state_says_that_the_tracker_is_lost_and_what_to_do(
    tracking: MapTracking, pose: Pose | None, state: str, code: str
) -> None:
    listener = TrackedBench(tracking, pose)
    Bench(listeners=[listener]).seconds(1.0)
    (said,) = listener.outputs.states
    assert said.startswith(state)
    assert (said == "idle") is (state == "idle")
    (level, values) = next((row[1], row[3]) for row in listener.outputs.newest if row[0] == "pose")
    assert (level, values.get("code", "")) == (WARNING if code else OK, code)


#   faults                                                          state, rows by name: level and message
FAULTY = [
    ([InputFault("odometry", "bad /odom")], "idle; bad /odom", {"odometry": (ERROR, "bad /odom")}),
    ([InputFault("odometry", "slow", standing=False)], "idle", {"odometry": (WARNING, "slow")}),
    ([InputFault("command", "no base", warning=True)], "idle; no base", {"command": (WARNING, "no base")}),
    ([InputFault("scan", "two"), InputFault("scan", "late")], "idle; two; late", {"scan": (ERROR, "two; late")}),
    (
        [InputFault("odometry", "same"), InputFault("camera front", "same")],
        "idle; same",
        {"odometry": (ERROR, "same"), "camera front": (ERROR, "same")},
    ),
]


@pytest.mark.parametrize(("faults", "state", "wanted"), FAULTY)
def test_a_fault_of_an_input_is_in_the_state_and_in_its_row(
    faults: list[InputFault], state: str, wanted: dict[str, tuple[int, str]]
) -> None:
    """The recorded state stays as it is, so that a replay compares the same."""
    listener = PublisherBench()
    bench = Bench(listeners=[listener])
    bench.ticks(2)
    before = {row[0]: row for row in listener.outputs.newest}
    listener.faults = faults
    bench.seconds(1.0)
    assert listener.outputs.states[-1] == state
    assert bench.runtime.state.mission.text() == "idle"
    after = {row[0]: row for row in listener.outputs.newest}
    assert {name: after[name][1:3] for name in wanted} == wanted
    assert {name: row[1:3] for name, row in after.items() if name not in wanted} == {
        name: row[1:3] for name, row in before.items() if name not in wanted
    }
    assert after["odometry"][3].keys() == before["odometry"][3].keys()
    assert len(after) == len(listener.outputs.newest)
    listener.faults = []
    bench.seconds(1.0)
    assert listener.outputs.states[-1] == "idle"


def test_a_row_that_is_worse_than_its_fault_keeps_its_message() -> None:
    own = ("scan", ERROR, "no scan yet", {"rate_hz": None})
    assert faulty_rows([own], [InputFault("scan", "a", standing=False)]) == [(*own[:2], "no scan yet; a", own[3])]


def test_the_maps_transform_is_absent_until_localised() -> None:
    listener = PublisherBench()
    bench = Bench(listeners=[listener])
    bench.ticks(2)
    bench.fix(Pose(1.0, 2.0, 0.0))
    bench.tick()
    assert [map_from_odom for _, map_from_odom in listener.outputs.poses] == [None, None, Pose(1.0, 2.0, 0.0)]


def row(name: str, happens: Callable[[Bench], Any] = lambda bench: None, stats: RecorderStats | None = None) -> Any:
    """Return (level, message, values) of a row after an event on a turning robot."""
    bench = Bench(Puppet(LEFT)).driving()
    happens(bench)
    found = rows(bench.tick(), bench.runtime.counters, [WORKS, DOWN], stats)
    return {entry[0]: entry[1:] for entry in found}[name]


def stop(bench: Bench) -> None:
    bench.e_stop = True


def late(bench: Bench) -> None:
    bench.runtime.counters.deadline_misses = 1


UNFIT = "most scans do not match: few walls in view, or mounts or wheels are not as configured"


def lose(bench: Bench) -> None:
    bench.images.clear()
    bench.seconds(1.0)


def queue(bench: Bench) -> None:
    """Odometry stops for a while, then arrives 250 ms late."""
    bench.reports = False
    bench.ticks(10)
    bench.reports = True
    bench.alter = lambda inputs: replace(
        inputs, odometry=tuple(replace(one, stamp_ns=one.stamp_ns - 250 * NS_PER_MS) for one in inputs.odometry)
    )


def match(matched: int, missed: int, rejected: int) -> Any:
    """Let scans have matched in the bench's state."""

    def happen(bench: Bench) -> None:
        found = ScanOdometry(matched=matched, missed=missed, rejected=rejected)
        bench.runtime.state = replace(bench.runtime.state, scan_odometry=found)

    return happen


#   row               what happened          recorder                                    level    message
ROWS: list[tuple[str, Any, RecorderStats | None, int, str]] = [
    ("runtime", None, None, OK, "navigating"),
    ("runtime", stop, None, ERROR, "stopped: e_stop"),
    ("policy", None, None, OK, "in time"),
    ("policy", late, None, WARNING, "late decisions"),
    ("command", None, None, OK, "none"),
    ("command", stop, None, OK, "e_stop"),
    ("command", lose, None, OK, "stale_scan"),
    ("odometry", None, None, OK, "in time"),
    ("odometry", queue, None, WARNING, "latency 250 ms: a clock was changed, or messages queue"),
    ("pose", None, None, OK, "odometry only"),
    ("pose", lambda bench: bench.fix(Pose(1.0, 0.0, 0.0)), None, OK, "localized"),
    ("pose", match(30, 25, 0), None, OK, "odometry only"),
    ("pose", match(5, 10, 5), None, OK, "odometry only"),
    ("pose", match(5, 20, 5), None, WARNING, UNFIT),
    ("camera front", None, None, OK, "working"),
    ("camera rear", None, None, ERROR, "unplugged"),
    ("recorder", None, recorder(), OK, "recording"),
    ("recorder", None, recorder(dropped=3), WARNING, "dropped: queue full"),
    ("recorder", None, recorder(dropped=3, last_problem="/odom: bad"), WARNING, "dropped: /odom: bad"),
    ("recorder", None, recorder(stopped="disk full"), ERROR, "disk full"),
]


@pytest.mark.parametrize(("name", "happens", "stats", "level", "message"), ROWS)
def test_rows(name: str, happens: Any, stats: RecorderStats | None, level: int, message: str) -> None:
    assert row(name, happens or (lambda bench: None), stats)[:2] == (level, message)


#   row                                                              its codes, and a word of what clears them
CODED = [
    (("runtime", ERROR, "stopped: no progress towards the goal for 30 s", {}), "no_progress", "Clear the path"),
    (("runtime", OK, "idle: cancelled", {}), "cancelled", "Send a goal."),
    (("command", OK, "zone_stop", {}), "zone_stop", "limits.stop_margin_m"),
    (("odometry", ERROR, "odometry refused: v is nan", {}), "odometry_not_finite", "driver"),
    (("camera rear", ERROR, "covered: 0.1 % valid pixels, limit 5 %", {}), "covered", "Uncover"),
    (("command", OK, "none", {}), "none", ""),
    (("camera front", OK, "working", {}), "", ""),
    (("scan", WARNING, "unheard of", {}), "", ""),
]  # fmt: skip


@pytest.mark.parametrize(("row", "code", "clears"), CODED)
def test_a_reason_is_published_with_its_code_and_what_clears_it(row: Diagnostic, code: str, clears: str) -> None:
    ((_, level, message, values),) = with_codes([row])
    assert (level, message, values.get("code", "")) == (row[1], row[2], code)
    assert clears in str(values.get("clears", ""))
    assert ("clears" in values) == bool(clears)


def test_the_values_are_those_of_the_tick() -> None:
    _, _, command = row("command")
    assert (command["v_mps"], command["w_radps"], command["wanted_w_radps"]) == (0.0, 1.0, 1.0)
    assert (command["recovery"], command["e_stop"], command["obstacle"]) == ("", None, None)
    _, _, runtime = row("runtime", lose)
    assert (runtime["ticks"], runtime["missed_slots"], runtime["fault_stale_scan"]) == (45, 0, 1)
    _, _, pose = row("pose")
    assert pose["goal_distance_m"] == pytest.approx(5.0, abs=0.01)
    assert "scans_matched" not in pose
    _, _, matching = row("pose", match(7, 2, 1))
    assert (matching["scans_matched"], matching["scans_missed"], matching["scans_rejected"]) == (7, 2, 1)
    assert row("camera front")[2] == {"frames": 40, "restarts": 0, "valid_fraction": 0.9}
    assert row("recorder", stats=recorder())[2]["file"] == "a.mcap"


# ---- The live status line of a terminal


def test_the_line_says_state_goal_command_reason_and_punctuality() -> None:
    bench = Bench(Puppet(FORWARD)).driving(x_m=5.0)
    bench.skip(2)
    del bench.images["rear"]
    line = status_line(bench.tick(), bench.runtime.counters)
    for part in ("navigating", "goal  4.", "v +0.60 m/s w +0.00 rad/s (none)", "missed 2 slots, 0 decisions", "blind"):
        assert part in line
