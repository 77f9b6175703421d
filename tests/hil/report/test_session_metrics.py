"""Headline, moments and tables of a session for every kind of end and fault."""

from __future__ import annotations

import numpy as np
import pytest

from hil.report.events import OTHER, moments_of, row_of, with_code
from hil.report.session_metrics import drives_of, endings, headline
from hil.report.tables import record_of
from onboard.safety.limits import Reason
from onboard.values.messages import GoalRequest, Pose
from onboard.values.reasons import TABLE
from tests.hil.report.report_rows import spread, timeline

N = 90


def driven(end: str, left_m: float = 0.05, **changes):
    """Return a drive from tick 30 to 59, and how it ended."""
    episode = np.where(np.arange(N) >= 30, 1, 0)
    state = ["idle"] * 30 + ["navigating"] * 30 + [end] * 30
    odometry = np.zeros((N, 5))
    odometry[30:60, 0] = np.linspace(0.0, 3.0, 30)
    odometry[60:, 0] = 3.0
    return timeline(N, episode=episode, state=state, goal_distance_m=np.full(N, left_m), odometry=odometry, **changes)


def flags(*stretches: tuple[int, int], value: int = 1, ticks: int = N):
    found = np.zeros(ticks, np.int64)
    for first, end in stretches:
        found[first:end] = value
    return found


NOTHING = "0 commands cut by collision zones, 0 deadline misses"
#   session                                                       its sentence
SENTENCES = [
    (timeline(N), f"Stood without a goal for 3.0 s: {NOTHING}"),
    (driven("reached"), f"Reached the goal in 1.0 s: {NOTHING}"),
    (driven("idle", 1.25), f"Cancelled after 1.0 s, 1.25 m from the goal: {NOTHING}"),
    (
        driven("stopped: e_stop", 2.0),
        f"Stopped after 1.0 s, 2.00 m from the goal, reason: {TABLE['e_stop'].sentence} (e_stop): {NOTHING}",
    ),
    (driven("navigating", 2.0), f"Still driving after 2.0 s, 2.00 m from the goal when the recording ends: {NOTHING}"),
    (driven("reached", reason=spread(N, "none", zone_stop=(40, 43))),
     "Reached the goal in 1.0 s: 3 commands cut by collision zones, 0 deadline misses"),
    (driven("reached", acted=flags((45, 46), (55, 56)), action=np.full(N, -1)),
     "Reached the goal in 1.0 s: 0 commands cut by collision zones, 2 deadline misses"),
    (driven("reached", acted=flags((45, 46)), faults={45: "engine gone"}),
     f"Reached the goal in 1.0 s: {NOTHING}, 1 engine fault"),
    (driven("reached", e_stop=flags((5, 9), (70, 80)), recovery=spread(N, "", backing=(50, 55))),
     f"Reached the goal in 1.0 s: {NOTHING}, 2 e-stops, 1 recovery"),
    (driven("reached", missed=flags((9, 10), value=2), slot=np.arange(N) + 2 * (np.arange(N) >= 9)),
     f"Reached the goal in 1.0 s: {NOTHING}, 2 ticks skipped"),
    (driven("reached", slot=np.arange(N) + 5 * (np.arange(N) >= 9)),
     f"Reached the goal in 1.0 s: {NOTHING}, 1 gap in the recording"),
]  # fmt: skip


@pytest.mark.parametrize(("session", "message"), SENTENCES)
def test_the_sentence_says_what_came_of_it(session, message):
    assert headline(session, drives_of(session)) == message


def test_two_goals_are_two_drives():
    episode = np.repeat([0, 1, 2], 30)
    state = ["idle"] * 30 + ["navigating"] * 40 + ["reached"] * 20
    session = timeline(N, episode=episode, state=state)
    assert [(drive.episode, drive.first, drive.last, drive.ended) for drive in drives_of(session)] == [
        (1, 30, 59, "another goal"),
        (2, 60, 69, "reached"),
    ]
    assert headline(session, drives_of(session)).startswith("Reached 1 of 2 goals in 1.3 s of driving: ")


def test_how_the_goals_were_missed_is_said_the_commonest_first():
    episode = np.repeat([1, 2, 3, 4, 5], 20)
    ends = ["stopped: goal is occupied", "reached", "stopped: of another release", "stopped: goal is occupied"]
    state = [word for end in ends for word in ["navigating"] * 15 + [end] * 5] + ["navigating"] * 20
    drives = drives_of(timeline(100, episode=episode, state=state))
    assert (
        endings(drives) == "2 times goal is occupied (goal_occupied), once of another release, once the recording ends"
    )
    assert endings([drive for drive in drives if drive.ended == "reached"]) == ""


def goal(frame: str) -> GoalRequest:
    return GoalRequest(1, 1, frame, Pose(1.0, 2.0, 0.0))


#   changes                                             row, kind, and beginning of the text of the one moment
MOMENTS = [
    ({"resets": {7: "period"}}, (7, "memory", "the memory is reset, as its period has passed (period)")),
    ({"resets": {7: "another"}}, (7, "memory", "another")),
    ({"faults": {4: "boom"}, "acted": flags((4, 5))}, (4, "fault", "engine failed: boom")),
    ({"acted": flags((4, 5), value=12)}, (4, "deadline", "deadline missed: decision 12 ")),
    ({"missed": flags((4, 5)), "slot": np.arange(N) + (np.arange(N) >= 4)},
     (4, "deadline", "1 tick of the control rate")),
    ({"slot": np.arange(N) + 2 * (np.arange(N) >= 4)}, (4, "gap", "2 ticks missing in the recording")),
    ({"e_stop": flags((80, N))}, (80, "e-stop", "e-stop pressed")),
    ({"obstacle": flags((30, 60))}, (30, "sensor", "obstacle reported for 1.0 s")),
    ({"reason": spread(N, "none", stale_scan=(30, 60))}, (30, "sensor", "stale_scan for 1.0 s: the limits' scan")),
    ({"reason": spread(N, "none", teleop=(30, 60))}, (30, "note", "an operator drives for 1.0 s")),
    ({"events": {3: ("recovery what=rear_not_free",)}}, (3, "recovery", with_code("recovery_rear_not_free"))),
    ({"events": {3: ("stale_scan: the robot stands until it is back",)}}, (3, "note", "stale_scan: the robot stands")),
    ({"events": {3: ("mission state=reached",)}}, (3, "state", "state: idle")),
    ({"events": {3: ("goal_accepted x_m=1.0 y_m=2.0 frame=map reason=none",)}},
     (3, "goal", "goal accepted: x 1.00 m, y 2.00 m in frame map")),
    ({"events": {3: ("goal_refused x_m=1.0 y_m=2.0 frame=a b reason=unknown frame 'a b'",)}},
     (3, "goal", "goal refused: unknown frame 'a b': x 1.00 m, y 2.00 m in frame a b")),
    ({"events": {3: ("goal_accepted x_m=1.2.3 y_m=2.0 frame=map reason=none",)}},
     (3, "goal", "goal_accepted x_m=1.2.3")),
    ({"events": {3: ("goal_refused in other words",)}}, (3, "goal", "goal_refused in other words")),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "expected"), MOMENTS)
def test_what_happened_is_a_moment(changes, expected):
    (moment,) = moments_of(timeline(N, **changes))
    assert (moment.row, moment.kind) == expected[:2]
    assert moment.text.startswith(expected[2])


@pytest.mark.parametrize("reason", Reason)
def test_a_command_has_the_code_and_the_sentence_of_its_reason(reason: Reason):
    row = row_of(reason.value)
    assert (row.code, row.meaning) == (reason.value, TABLE[reason.value].sentence)
    assert row.kind != OTHER


def test_a_reason_of_another_release_stands_for_itself():
    assert row_of("later_version")[:3] == ("later_version", OTHER, "")
    assert row_of("no_progress")[:3] == ("no_progress", OTHER, ""), "no reason of a command"
    assert with_code("a text of another release") == "a text of another release"


def test_the_end_of_a_drive_has_its_code():
    assert with_code("goal is occupied") == "goal is occupied (goal_occupied)"


def test_the_record_names_version_configuration_model_and_machine():
    session = {"onboard_version": "1.2", "configuration": "{}", "model_sha256": "ab" * 32, "machine": "box"}
    record = dict(record_of(timeline(N, session=session)))
    assert record["version"] == "onboard 1.2"
    assert record["configuration"] == "sha256 44136fa355b3678a"
    assert record["policy"].endswith("sha256 " + "ab" * 8)
    assert record["machine"] == "box"
