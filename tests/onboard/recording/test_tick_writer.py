"""Ticks in the recording: rosbags reads back each tick's inputs and results."""

from __future__ import annotations

import itertools
import math
import threading
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rosbags.highlevel import AnyReader

from onboard.config.config import DdsSection
from onboard.drivers.dds.ros_types import String, to_cdr
from onboard.recording.recorder import Recorder, RecordQueue
from onboard.recording.ros_schema import message_type
from onboard.recording.state_snapshot import encode
from onboard.recording.tick_message import tick_message, tick_record
from onboard.recording.tick_writer import MOST_WITH_IMAGES, TICK_BYTES
from onboard.state import TickRecord
from onboard.values.clock import NS_PER_S
from onboard.values.errors import InputError
from onboard.values.messages import BINS, Fix, GoalRequest, Inputs, OdometryMessage, Pose, Scan, Twist
from tests.rigs.machine.waiting import until
from tests.rigs.runtime_bench import LEFT, MOUNTS, Bench, Puppet, Tape, with_noise

WALL_NS = 1_790_000_000 * 10**9
COVARIANCE = np.array([[0.04, 0.01, 0.002], [0.01, 0.09, 0.003], [0.002, 0.003, 0.01]])


def tape_in(folder: Path, dds: DdsSection | None = None, **record: Any) -> Tape:
    """Return a listener that records every tick and keeps it."""
    config = Bench(**({} if dds is None else {"dds": dds})).config
    return Tape(folder, config, session={}, wall_ns=WALL_NS, **record)


Found = dict[str, list[tuple[int, Any]]]
"""(monotonic time, message) of all messages in a file, by topic."""
Drive = tuple[list[TickRecord], Found]


def read(path: Path) -> Found:
    found: Found = defaultdict(list)
    with AnyReader([path]) as reader:
        for connection, log_ns, data in reader.messages():
            message = reader.deserialize(data, connection.msgtype)
            found[connection.topic].append((log_ns - WALL_NS + NS_PER_S, message))
    return found


@pytest.fixture(scope="module")
def drive(tmp_path_factory: pytest.TempPathFactory) -> Drive:
    """A drive with many events, and the content of its file."""
    recorded = tape_in(tmp_path_factory.mktemp("ticks"))
    bench = Bench(Puppet(LEFT), takes_ms={6: 200}, listeners=[recorded], limits_scan={"cameras": ["front", "rear"]})
    rng = np.random.default_rng(1)
    bench.alter = lambda inputs: with_noise(inputs, rng, 300, 4000)
    bench.ticks(5)
    bench._fixes.append(Fix(7, NS_PER_S, Pose(1.0, 2.0, 0.5), COVARIANCE))
    bench.fix(Pose(1.0, 2.0, 0.6))
    bench.ask()
    bench.ticks(70)
    bench.obstacle = True
    bench.skip(3)
    bench.operate(Twist(0.1, 0.2))
    bench.ticks(20)
    bench.ask(frame="mars")
    del bench.images["rear"]
    bench.ticks(20)
    bench.e_stop = True
    bench.ticks(3)
    bench.cancel()
    bench.ticks(2)
    return recorded.ticks, read(recorded.close())


def test_every_tick_stands_in_the_file_with_what_it_produced(drive: Drive) -> None:
    ticks, found = drive
    messages = found["/onboard/tick"]
    assert len(messages) == len(ticks) == 120
    for tick, (log_ns, message) in zip(ticks, messages, strict=True):
        slot, sensed, acted = tick.slot, tick.sensed, tick.acted
        assert log_ns == message.start_ns == slot.start_ns
        assert (message.slot, message.deadline_ns, message.missed) == (slot.number, slot.deadline_ns, slot.missed)
        assert (message.state, message.reason, message.events) == (tick.state, tick.reason, list(tick.events))
        assert tuple(message.command) == (tick.command.v_mps, tick.command.w_radps)
        assert tuple(message.wanted) == (tick.wanted.v_mps, tick.wanted.w_radps)
        assert list(message.odometry[:3]) == [getattr(tick.odometry.pose, n) for n in ("x_m", "y_m", "yaw_rad")]
        assert (len(message.filtered), len(message.map_from_odom)) == (
            5 if tick.filtered else 0,
            3 if tick.map_from_odom else 0,
        )
        assert dict(zip(message.stages, message.stage_ns, strict=True)) == dict(tick.stage_ns)
        assert message.sensed == (sensed.number if sensed else 0)
        assert message.acted == (acted.number if acted else 0)
        assert message.action == (acted.decision.action if acted and acted.decision else -1)
        assert message.episode == tick.episode
    assert [m.missed for _, m in messages if m.missed] == [3]
    assert {m.memory_reset for _, m in messages} == {"", "sequence_start"}


def planar(values: Any) -> Pose | None:
    return Pose(*(float(value) for value in values)) if len(values) else None


def test_a_tick_holds_what_it_consumed_to_the_last_bit(drive: Drive) -> None:
    ticks, found = drive
    for tick, (_, message) in zip(ticks, found["/onboard/tick"], strict=True):
        wheels = [
            OdometryMessage(
                int(wheel_input.stamp_ns),
                int(wheel_input.arrival_ns),
                planar(wheel_input.pose),
                Twist(*map(float, wheel_input.twist)),
            )
            for wheel_input in message.wheel_inputs
        ]
        assert tuple(wheels) == tick.inputs.odometry
        goals = [
            GoalRequest(
                int(goal_input.stamp_ns), int(goal_input.arrival_ns), goal_input.frame_id, planar(goal_input.pose)
            )
            for goal_input in message.goal_inputs
        ]
        assert tuple(goals) == tick.inputs.goals
        for fix_input, fix in zip(message.fix_inputs, tick.inputs.fixes, strict=True):
            assert (fix_input.stamp_ns, fix_input.arrival_ns, planar(fix_input.pose)) == (
                fix.stamp_ns,
                fix.arrival_ns,
                fix.pose,
            )
            assert list(fix_input.covariance) == ([] if fix.covariance is None else fix.covariance.ravel().tolist())
        assert message.limits_scan_stamp_ns == tick.limits_scan.stamp_ns
        assert list(message.goal_distance_m) == ([] if tick.goal_distance_m is None else [tick.goal_distance_m])
    assert sum(len(message.fix_inputs) for _, message in found["/onboard/tick"]) == 2


def test_the_state_stands_every_ten_seconds_and_after_a_reset_with_no_decision_under_way(drive: Drive) -> None:
    ticks, found = drive
    at = {tick.slot.start_ns: number for number, tick in enumerate(ticks)}
    numbers = [at[log_ns] for log_ns, _ in found["/onboard/keyframe"]]
    reset = next(number for number, tick in enumerate(ticks) if tick.sensed and tick.sensed.memory_reset)
    assert numbers[0] == 0
    assert numbers[1] == next(n for n in range(reset, len(ticks)) if ticks[n].after.pilot.pending is None)
    for number, (_, message) in zip(numbers, found["/onboard/keyframe"], strict=True):
        assert message.data == encode(ticks[number].after)
        assert ticks[number].after.pilot.pending is None


#   field                 value               words in the message
BROKEN = [
    ("action",            28,                 "action 28, must be -1 to 27"),
    ("command",           [0.0],              "a twist of 1 numbers, must be 2"),
    ("odometry",          [0.0] * 4,          "a pose with its twist of 4 numbers, must be 5"),
    ("map_from_odom",     [0.0] * 2,          "a pose of 2 numbers, must be 3"),
]  # fmt: skip


@pytest.mark.parametrize(("field", "value", "expected"), BROKEN)
def test_what_is_no_tick_is_refused(drive: Drive, field: str, value: Any, expected: str) -> None:
    tick = drive[0][0]
    with pytest.raises(InputError, match=f"^{expected}$"):
        tick_record(replace(tick_message(tick), **{field: value}), {}, (tick.scan, tick.scan), {})


def test_images_stand_bit_for_bit_at_every_decision_and_there_only(drive: Drive) -> None:
    ticks, found = drive
    deciding = [tick for tick in ticks if tick.sensed]
    cameras = 0
    for name in MOUNTS.depth:
        consumed = {t.slot.start_ns: t.inputs.depth[name] for t in deciding if name in t.inputs.depth}
        images = dict(found[f"/{name}/depth/image"])
        assert list(images) == list(consumed)
        for at_ns, frame in consumed.items():
            image = images[at_ns]
            assert (image.encoding, image.header.frame_id) == ("16UC1", f"{name}_optical_frame")
            assert np.array_equal(np.frombuffer(image.data, np.uint16).reshape(60, 80), frame.depth)
        cameras += len(consumed)
    assert len(deciding) * 3 < cameras < len(deciding) * 4, "the rear camera was down for some"
    for at_ns, image in found["/color/image"]:
        frame = next(t.inputs.color for t in deciding if t.slot.start_ns == at_ns)
        assert np.array_equal(np.frombuffer(image.data, np.uint8).reshape(144, 256, 3), frame.image)


def test_a_tick_names_the_frames_that_it_used(drive: Drive) -> None:
    ticks, found = drive
    for tick, (_, message) in zip(ticks, found["/onboard/tick"], strict=True):
        frames = {f.camera: (f.number, f.stamp_ns) for f in tick.inputs.depth.values()}
        frames["color"] = (tick.inputs.color.number, tick.inputs.color.stamp_ns)
        stamps = zip(message.camera_frames, message.camera_stamps_ns, strict=True)
        assert dict(zip(message.cameras, stamps, strict=True)) == frames


def same(scan: Scan, ranges: Any) -> bool:
    return np.array_equal(np.where(scan.seen, scan.ranges_m, np.float32(np.nan)), ranges, equal_nan=True)


def test_commands_and_frames_are_recorded_as_they_were_sent(tmp_path: Path) -> None:
    section = DdsSection(stamped_cmd_vel=True, namespace="r7", namespace_frames=True)
    recorded = tape_in(tmp_path, section)
    bench = Bench(Puppet(LEFT), listeners=[recorded])
    bench.ticks(5)
    bench.ask()
    bench.ticks(30)
    found = read(recorded.close())
    for tick, (_, command) in zip(recorded.ticks, found["/r7/cmd_vel"], strict=True):
        assert Twist(command.twist.linear.x, command.twist.angular.z) == tick.command
        assert command.header.frame_id == "r7/base_link"
    assert any(tick.command.w_radps for tick in recorded.ticks)
    moving = [(transform.header.frame_id, transform.child_frame_id) for transform in found["/tf"][-1][1].transforms]
    assert ("r7/odom", "r7/base_link") in moving
    assert {transform.child_frame_id for transform in found["/tf_static"][0][1].transforms} == {
        f"r7/{name}_optical_frame" for name in [*MOUNTS.depth, *MOUNTS.color]
    }


def test_what_others_said_stands_once_when_it_came(drive: Drive) -> None:
    ticks, found = drive
    at = [tick.slot.start_ns for tick in ticks]
    first, second = (message for _, message in found["/amcl_pose"])
    planar = np.ix_((0, 1, 5), (0, 1, 5))
    assert np.array_equal(np.reshape(first.pose.covariance, (6, 6))[planar], COVARIANCE)
    assert not np.any(second.pose.covariance)
    assert [(log_ns, goal.header.frame_id) for log_ns, goal in found["/goal_pose"]] == [
        (at[5], "base_link"),
        (at[95], "mars"),
    ]
    assert [(log_ns, word.data) for log_ns, word in found["/obstacle"]] == [(at[75], True)]
    assert [(log_ns, word.data) for log_ns, word in found["/e_stop"]] == [(at[115], True)]
    assert [(log_ns, word.linear.x) for log_ns, word in found["/cmd_vel_teleop"]] == [(at[75], 0.1)]
    assert [log_ns for log_ns, _ in found["/onboard/cancel"]] == [at[118]]
    states = [word.data for _, word in found["/onboard/state"]]
    assert states[:2] == ["idle", "navigating"]
    assert len(states) == 1 + sum(a.state != b.state for a, b in itertools.pairwise(ticks))


def test_the_same_scan_is_not_recorded_twice(tmp_path: Path) -> None:
    recorded = tape_in(tmp_path)
    Bench(listeners=[recorded]).ticks(3)
    found = read(recorded.close())
    assert len(found["/scan"]) == 3
    assert "/limits_scan" not in found
    assert len(found["/tf_static"]) == 1
    assert len(found["/tf"]) == 3


def test_ready_made_scans_and_speed_limits_stand_as_they_came(tmp_path: Path) -> None:
    recorded = tape_in(tmp_path)
    bench = Bench(listeners=[recorded], scan={"topic": "twin/scan"}, limits_scan={})
    came: list[Scan] = []
    limits = [None, 0.5, 0.5, math.nan, math.nan, 0.0]

    def twin(inputs: Inputs) -> Inputs:
        if len(recorded.ticks) % 2 == 0:
            ranges = np.full(BINS, len(recorded.ticks) + 0.25, np.float32)
            ranges[:3] = np.inf
            came.append(Scan(inputs.now_ns, ranges, np.arange(BINS) > 0))
        return replace(inputs, scans={"twin/scan": came[-1]}, speed_limit_mps=limits[len(recorded.ticks)])

    bench.alter = twin
    ticks = bench.ticks(len(limits))
    found = read(recorded.close())
    at = [tick.slot.start_ns for tick in ticks]
    assert [log_ns for log_ns, _ in found["/twin/scan"]] == at[::2]
    assert all(same(scan, message.ranges) for scan, (_, message) in zip(came, found["/twin/scan"], strict=True))
    assert all(same(tick.scan, message.ranges) for tick, (_, message) in zip(ticks, found["/scan"], strict=True))
    words = found["/speed_limit"]
    assert [(log_ns, repr(word.speed_limit)) for log_ns, word in words] == [
        (at[1], "0.5"),
        (at[3], "nan"),
        (at[5], "0.0"),
    ]
    messages = [message for _, message in found["/onboard/tick"]]
    assert [message.scans for message in messages] == [["twin/scan"], []] * 3
    assert [len(message.speed_limit_mps) for message in messages] == [0, 1, 1, 1, 1, 1]


class Held:
    """Holds the writing thread until `go`."""

    def __init__(self, recorder: Recorder) -> None:
        reached, self._go = threading.Event(), threading.Event()

        def wait() -> bytes:
            reached.set()
            self._go.wait()
            return to_cdr(String("held"))

        recorder.write("/held", message_type(String), wait, NS_PER_S)
        reached.wait()

    def go(self) -> None:
        self._go.set()


def test_a_tick_is_recorded_whole_or_not_at_all_and_the_state_stands_after_a_lost_one(tmp_path: Path) -> None:
    recorded = tape_in(tmp_path, queue=RecordQueue(7, 256e6))
    bench = Bench(Puppet(LEFT), listeners=[recorded])
    bench.ask()
    bench.ticks(4)
    recorded.recorder.write("/flushed", message_type(String), to_cdr(String("")), NS_PER_S)
    until(lambda: not recorded.recorder.waiting)
    held = Held(recorded.recorder)
    bench.ticks(12)
    held.go()
    until(lambda: not recorded.recorder.waiting)
    bench.e_stop = True
    bench.ticks(5)
    recorded.recorder.close()
    assert recorded.taken == [True] * 11 + [False] * 5 + [True] * 5
    stats = recorded.recorder.stats()
    assert (stats.dropped, stats.last_problem) == (5, "")
    assert stats.file is not None
    found = read(stats.file)
    kept = [tick for tick, taken in zip(recorded.ticks, recorded.taken, strict=True) if taken]
    at = [tick.slot.start_ns for tick in kept]
    for topic in ("/odom", "/scan", "/cmd_vel", "/tf", "/onboard/tick"):
        assert [log_ns for log_ns, _ in found[topic]] == at, topic
    sensed = [tick for tick in kept if tick.sensed]
    assert len(found["/front/depth/image"]) == len(sensed) == 2
    after_loss = next(tick for tick in kept[11:] if tick.after.pilot.pending is None)
    assert found["/onboard/keyframe"][-1][0] == after_loss.slot.start_ns
    assert [word.data for _, word in found["/e_stop"]] == [True]


def test_every_file_holds_whole_ticks_and_soon_a_state_to_begin_with(tmp_path: Path) -> None:
    recorded = tape_in(tmp_path, max_file_mb=0.2)
    bench = Bench(Puppet(LEFT), listeners=[recorded])
    rng = np.random.default_rng(1)
    bench.alter = lambda inputs: with_noise(inputs, rng, 300, 4000)
    bench.ask()
    bench.ticks(300)
    recorded.recorder.close()
    files = [read(path) for path in sorted(tmp_path.glob("*.mcap"))]
    assert len(files) > 3
    together = [log_ns for found in files for log_ns, _ in found["/onboard/tick"]]
    assert together == [tick.slot.start_ns for tick in recorded.ticks]
    decision_ticks = bench.config.rates.delay_ticks + 1
    for found in files:
        at = [log_ns for log_ns, _ in found["/onboard/tick"]]
        assert [log_ns for log_ns, _ in found["/scan"]] == at
        assert len(found["/tf_static"]) == 1
        assert len(at) <= decision_ticks or found["/onboard/keyframe"][0][0] <= at[decision_ticks]


def test_while_the_disk_lags_ticks_wait_without_their_images_and_are_recorded_as_ever(tmp_path: Path) -> None:
    recorded = tape_in(tmp_path)
    bench = Bench(Puppet(LEFT), listeners=[recorded])
    rng = np.random.default_rng(1)
    bench.alter = lambda inputs: with_noise(inputs, rng, 300, 4000)
    bench.ask()
    held = Held(recorded.recorder)
    bench.ticks(60)
    waiting = recorded.recorder.stats()
    held.go()
    found = read(recorded.close())
    frames = sum(frame.depth.nbytes for frame in recorded.ticks[0].inputs.depth.values())
    decisions = sum(tick.sensed is not None for tick in recorded.ticks)
    whole = MOST_WITH_IMAGES + 1 + decisions - 2  # two of the first ones decide
    color = recorded.ticks[0].inputs.color.image.nbytes
    assert waiting.queued_bytes == 60 * TICK_BYTES + whole * (frames + color)
    for tick, (_, message) in zip(recorded.ticks, found["/onboard/tick"], strict=True):
        assert list(message.camera_frames) == [f.number for f in tick.inputs.depth.values()] + [
            tick.inputs.color.number
        ]
    assert [message.data for _, message in found["/onboard/keyframe"]] == [
        encode(tick.after) for tick in recorded.ticks if tick.slot.start_ns in dict(found["/onboard/keyframe"])
    ]
