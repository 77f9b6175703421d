"""A replay repeats the recorded run, and names the first difference."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from hil.__main__ import app
from hil.drive.robot import Senses, SimulatedRobot
from hil.physics.collision_world import body_of
from hil.recordings.recording import Session, open_recording
from hil.recordings.ticks import ticks_of
from hil.replay.compare import Comparison
from hil.replay.compared_fields import STAGES
from hil.replay.player import RecordedScanner
from hil.replay.recorded_policy import recorded_building
from hil.replay.replay import replay
from hil.replay.tick_selection import WHOLE, Span
from hil.sensors.flawed_scan import Flaws
from onboard.assembly.policies import policy_maker
from onboard.assembly.robot import building_of
from onboard.config.config import MapSection, PolicySection
from onboard.perception import scan_fusion
from onboard.perception.obstacle_memory import Track
from onboard.recording.recorder import RecordQueue
from onboard.safety import limits
from onboard.state import TickRecord
from onboard.values.clock import NS_PER_S
from onboard.values.errors import InputError, RuntimeFaultError
from onboard.values.messages import BINS, Inputs, Pose, Scan, Teleop, Twist
from tests.onboard.perception.building.test_reach import saved
from tests.rigs.in_process import InProcess
from tests.rigs.machine.processes import done
from tests.rigs.recordings.replay_references import REFERENCES
from tests.rigs.recordings.replay_rig import TURNS, opinion_of, puppet, recorded, short_drive
from tests.rigs.rooms import room
from tests.rigs.runtime_bench import FORWARD, LEFT, MOUNTS, PLANT, Bench, Puppet, Tape, plain_config

FAR = np.full(BINS, np.inf, np.float32)


@pytest.fixture(scope="module")
def drive(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[TickRecord]]:
    (file,), ticks = recorded(tmp_path_factory.mktemp("drive"))
    return file, ticks


def again(file: Path) -> Comparison:
    return replay(file, policy=puppet())


def test_a_replay_is_the_same_run_to_the_last_bit(drive: tuple[Path, list[TickRecord]]) -> None:
    file, ticks = drive
    found = again(file)
    assert (found.first, found.ticks, found.skipped, found.gaps) == (None, len(ticks), 0, 0)
    assert found.identical
    assert found.within_tolerance
    decided = [tick for tick in ticks if tick.acted and tick.acted.decision]
    assert any(tick.acted and not tick.acted.decision for tick in ticks), "a decision was late"
    assert found.decisions == found.same == len(decided)
    assert found.fused == sum(tick.sensed is not None for tick in ticks)


@pytest.mark.parametrize("span", [WHOLE, Span(1.0, 9.0)], ids=["whole", "from the middle"])
def test_so_it_is_with_images_of_unequal_age(tmp_path: Path, span: Span, monkeypatch: pytest.MonkeyPatch) -> None:
    """The policy's scan is moved to now by the odometry of the last second, which whole states have in them."""
    file, moved = short_drive(tmp_path, age_ms=40), []
    move = scan_fusion.moved_to_now

    def noting(scan: Scan, memory: scan_fusion.ScanMemory, track: Track) -> Scan:
        moved.append(move(scan, memory, track) is not scan)
        return move(scan, memory, track)

    monkeypatch.setattr(scan_fusion, "moved_to_now", noting)
    found = replay(file, span)
    assert found.identical
    assert sum(moved) > 2


@pytest.mark.parametrize("span", [WHOLE, Span(1.0, 9.0)], ids=["whole", "from the middle"])
def test_so_it_is_with_a_person_who_is_seen_to_walk_between_decisions(
    tmp_path: Path, span: Span, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The images between decisions are not recorded, but the scan is in which the limits look for what moves."""
    tape = Tape(tmp_path, plain_config())
    policy = Puppet(lambda _: FORWARD, reset_s=0.5)
    bench = Bench(policy, listeners=[tape])

    def walking(inputs: Inputs) -> Inputs:
        """He crosses at 1 m/s, from the top of the upright image to its bottom, and comes nearer."""
        at_s, front = inputs.now_ns / NS_PER_S, inputs.depth["front"]
        row, image = 80 - round(21 * at_s), np.zeros_like(front.depth)
        image[max(row, 0) : row + 11] = round(3000 - 600 * at_s)
        return replace(inputs, depth={**inputs.depth, "front": replace(front, depth=image)})

    bench.alter = walking
    bench.ask()
    bench.ticks(80)
    file = tape.close()
    between = [tick for tick in tape.ticks if tick.sensed is None and tick.moved_scan is not None]
    assert sum(tick.slot.start_ns in tick.after.moving.seen_ns for tick in between if tick.after) > 5
    assert replay(file, span, policy=policy).identical, "whole states too, at each reset of the memory"
    monkeypatch.setattr(RecordedScanner, "moved", lambda *_: None)
    assert {"moved_scan", "keyframe"} <= replay(file, span, policy=policy).fields.keys()


def test_so_it_is_with_ready_made_scans_that_came_late(tmp_path: Path) -> None:
    topics = {"scan": {"topic": "policys"}, "limits_scan": {"topic": "limits"}}
    config = Bench(**topics).config
    tape = Tape(tmp_path, config)
    bench = Bench(puppet(), listeners=[tape], **topics)
    came: dict[str, Scan] = {}

    def late(inputs: Inputs) -> Inputs:
        """A scan on each topic in every third tick, one later than the other, and not always as late."""
        if len(tape.ticks) % 3 == 0:
            for late_ms, topic in ((90 + len(tape.ticks), "policys"), (200, "limits")):
                ranges = np.full(BINS, 3.0 + len(tape.ticks) / 64 + late_ms, np.float32)
                came[topic] = Scan(inputs.now_ns - late_ms * 1_000_000, ranges, FAR > 0.0, arrival_ns=inputs.now_ns)
        return replace(inputs, scans=dict(came))

    bench.alter = late
    bench.ticks(5)
    bench.ask()
    bench.ticks(60)
    tape.close()
    (file,) = tmp_path.glob("*.mcap")
    found = again(file)
    assert {tick.inputs.now_ns - tick.scan.stamp_ns for tick in tape.ticks} > {90_000_000, 93_000_000}
    assert (found.first, found.identical, found.ticks) == (None, True, len(tape.ticks))
    with open_recording(file) as recording:
        read = [tick.inputs.scans for tick in ticks_of(recording)]
    assert [{name: scan.stamp_ns for name, scan in scans.items()} for scans in read] == [
        {name: scan.stamp_ns for name, scan in tick.inputs.scans.items()} for tick in tape.ticks
    ]


@pytest.mark.parametrize("scans", [{}, {"limits_scan": {"cameras": ["front", "rear"]}}])
def test_a_fusion_that_cannot_be_compared_is_not_called_identical(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scans: dict[str, Any]
) -> None:
    """Frames between decisions are not recorded, so what was registered with them cannot be fused again."""
    (file,), ticks = recorded(tmp_path, scan={"history": 3}, **scans)
    sensed = sum(tick.sensed is not None for tick in ticks)
    found = again(file)
    assert (found.first, found.ticks, found.fused) == (None, len(ticks), 0)
    assert found.unfused == {"scan.history above 1": sensed}
    assert (found.identical, found.too_little, found.outcome) == (False, False, "no difference in what was compared")
    fuse = scan_fusion.fuse
    monkeypatch.setattr(scan_fusion, "fuse", lambda *given: (replace(fuse(*given)[0], ranges_m=FAR), fuse(*given)[1]))
    broken = again(file)
    assert broken.first is None, "the limits' scan has the history of the policy's"
    assert not broken.identical


def test_a_failed_engine_fails_again(tmp_path: Path) -> None:
    (file,), ticks = recorded(tmp_path, broken={12: {"decision": None, "error": "the device is gone"}})
    assert any("the device is gone" in tick.state for tick in ticks)
    assert again(file).identical


SCALED = ("speed_limit", "zone_stop", "zone_slow", "time_to_contact", "crossing")


def test_a_changed_limit_is_found_at_its_first_tick(
    drive: tuple[Path, list[TickRecord]], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, ticks = drive
    slower = limits._scaled
    monkeypatch.setattr(limits, "_scaled", lambda twist, factor: slower(twist, 0.999 * factor))
    first = next(tick for tick in ticks if tick.reason in SCALED)
    found = again(file).as_json()["first_difference"]
    assert (found["tick"], found["stage"], found["field"]) == (first.slot.number, "limits", "command.v_mps")
    assert found["recorded"] == first.command.v_mps
    assert found["replayed"] == pytest.approx(0.999 * first.command.v_mps)


def test_another_action_is_found_and_what_follows_is_compared_all_the_same(
    drive: tuple[Path, list[TickRecord]],
) -> None:
    file, _ = drive
    found = replay(file, policy=puppet((*TURNS[:3], LEFT)))
    assert set(found.fields) == {"acted.decision.action"}
    assert found.same < found.decisions
    assert not found.within_tolerance


def test_after_a_gap_it_goes_on_from_the_next_whole_state(tmp_path: Path) -> None:
    (file,), ticks = recorded(tmp_path, lose=lambda slot: 100 <= slot < 110)
    found = again(file)
    assert (found.first, found.gaps, found.too_little) == (None, 1, False)
    assert found.skipped > 0
    assert not found.identical
    assert found.ticks + found.skipped == len(ticks) - sum(100 <= tick.slot.number < 110 for tick in ticks)
    assert found.ticks > len(ticks) // 2


def test_where_nothing_can_be_played_nothing_is_called_identical(
    tmp_path: Path, drive: tuple[Path, list[TickRecord]]
) -> None:
    (file,), _ = recorded(tmp_path, lose=lambda slot: slot < 400)
    with pytest.raises(InputError, match="no tick can be played, so nothing was compared"):
        replay(file, Span(to_s=0.0), policy=puppet())
    unread = opinion_of(drive[0], Puppet(FORWARD), Span(to_s=0.05))
    assert unread.reason.endswith("no decision can be played, so nothing was compared")


def test_an_older_format_is_refused_by_name(
    drive: tuple[Path, list[TickRecord]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hil.replay.sessions.FORMAT", "99")
    with pytest.raises(InputError, match="recorded in format 3, this version replays 99"):
        again(drive[0])


def test_a_part_is_played_from_the_last_whole_state_before_it(drive: tuple[Path, list[TickRecord]]) -> None:
    file, ticks = drive
    found = replay(file, Span(8.0, 9.0), policy=puppet())
    assert found.identical
    within = [tick for tick in ticks if 8 * NS_PER_S <= tick.slot.start_ns - ticks[0].slot.start_ns <= 9 * NS_PER_S]
    assert found.ticks == len(within) > 20
    assert found.sessions[0].from_s == (within[0].slot.start_ns - ticks[0].slot.start_ns) / NS_PER_S
    assert found.fused == sum(tick.sensed is not None for tick in within)


def test_another_policy_says_what_it_would_have_done(drive: tuple[Path, list[TickRecord]]) -> None:
    file, ticks = drive
    done = [tick.acted.decision.action for tick in ticks if tick.acted and tick.acted.decision]
    opinion = opinion_of(file, Puppet(FORWARD))
    assert (opinion.decisions, opinion.same) == (len(done), done.count(FORWARD))
    assert opinion.pairs == {(action, FORWARD): done.count(action) for action in set(done)}
    assert len(opinion.moments) == min(10, opinion.decisions - opinion.same)
    values = opinion.as_json()
    assert sum(row["decisions"] for row in values["confusion"]) == len(done)
    assert values["confusion"][0]["now"] == {"action": FORWARD, "v_mps": 0.6, "w_radps": 0.0}


def test_a_fault_of_the_runtime_shows_its_traceback(
    drive: tuple[Path, list[TickRecord]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: Any) -> None:
        raise TypeError("broken on purpose")

    monkeypatch.setattr(limits, "limit", broken)
    with pytest.raises(RuntimeFaultError) as fault:
        again(drive[0])
    first, *lines = str(fault.value).split("\n")
    assert "a fault of the runtime, not of the recording" in first
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-1] == "TypeError: broken on purpose"
    assert any("onboard/runtime.py" in line for line in lines)


# ---- A replay does not depend on time, load, process or cluster

RUNS = 3
BUSY = "while True: pass"
START_S = "300"
"""Ray's timeout for its own start on a busy machine."""


def outcome(found: Any) -> Any:
    return {name: one for name, one in found.items() if name != "speed_x_realtime"}


@pytest.mark.long
@pytest.mark.timeout(900)
def test_it_is_the_same_again_and_again_on_a_busy_machine_and_in_two_processes(tmp_path: Path) -> None:
    demo = REFERENCES / "demo.mcap"
    busy = subprocess.Popen([sys.executable, "-c", BUSY])
    try:
        here = [outcome(replay(demo).as_json()) for _ in range(RUNS)]
        assert all(one["within_tolerance"] for one in here)  # a reference may be of another processor
        files = [tmp_path / f"{number}.json" for number in range(2)]
        for file in files:
            both = demo, demo.with_name("office.mcap")
            there = done("hil", "replay", *both, "--jobs", "2", "--json", file, folder=tmp_path)
            assert there.process.returncode == 0, there.err
            assert outcome(json.loads(file.read_text())["recordings"][0]) == here[0]
    finally:
        busy.kill()
        busy.wait()
    assert here[0] == here[1] == here[2]


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_references_hold_on_a_plainer_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CPU_NAME", "generic")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.setenv("NPY_DISABLE_CPU_FEATURES", "X86_V3 X86_V4")
    there = done("hil", "replay", REFERENCES, folder=tmp_path)
    assert there.process.returncode == 0, there.out + there.err
    assert [", judged as a reference: " in line for line in there.out.splitlines()] == [True, True]


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_cluster_replays_as_this_process_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    monkeypatch.setenv("RAY_raylet_start_wait_time_s", START_S)
    drive = short_drive(tmp_path / "robot")
    fleet = tmp_path / "fleet"
    fleet.mkdir()
    for name in ("a", "b"):
        shutil.copy(drive, fleet / f"{name}.mcap")
    (fleet / "torn.mcap").write_bytes(drive.read_bytes()[:1_000])
    results = []
    for workers in ([], ["--ray", "local"]):
        file = tmp_path / "out.json"
        done = CliRunner().invoke(app, ["replay", str(fleet), *workers, "--json", str(file)])
        assert done.exit_code == 2, done.output
        results.append(json.loads(file.read_text()))
        for row in results[-1]["recordings"]:
            assert row.pop("speed_x_realtime") > 0.0
    assert results[0] == results[1]
    assert [Path(row["file"]).name for row in results[0]["recordings"]] == ["a.mcap", "b.mcap"]
    assert [Path(row["file"]).name for row in results[0]["unreadable"]] == ["torn.mcap"]


def test_each_field_of_a_tick_is_compared_or_named_as_an_input_or_a_time() -> None:
    compared = {path.partition(".")[0] for _, paths in STAGES for path in paths}
    others = {"slot", "inputs", "sent_ns", "stage_ns", "after", "keyframe"}
    """`after` and `keyframe` are the state, which `differences` compares at keyframes."""
    assert compared.isdisjoint(others)
    assert compared | others == {one.name for one in fields(TickRecord)}


# ---- A recording of `mapped` holds its map, and replays to the last bit without the file


def test_a_drive_with_a_map_replays_to_the_last_bit_without_its_file(tmp_path: Path) -> None:
    world = room(4.0, 3.0, cell_m=0.1)
    file = saved(tmp_path, np.where(world.overlapping(0.0, 1.0), 100, 0), origin=[-0.1, -0.1, 0])
    config = plain_config(policy=PolicySection(model="mapped"), map=MapSection(file=file))
    tape = Tape(tmp_path / "drive", config, queue=RecordQueue(100_000, 1e9))
    robot = SimulatedRobot(world, PLANT, body_of(config.robot), MOUNTS, Pose(1.0, 1.5, 0.0))
    policy = policy_maker(config, PLANT, building_of(config))()
    drive = InProcess(config, MOUNTS, PLANT, robot, policy, [tape]).drive_to(Pose(3.0, 1.5, 0.0), limit_s=2.0)
    assert any(tick.sensed and tick.sensed.observation.map_from_start for tick in drive.ticks)
    recording = tape.close()
    file.unlink()
    found = replay(recording)
    assert found.identical
    assert found.decisions > 3


def test_so_does_a_tracker_that_moves_images_of_unequal_age_while_an_operator_turns_the_robot(tmp_path: Path) -> None:
    """The images of these slots are not recorded, but what the tracker made of them is."""
    world = room(4.0, 3.0, cell_m=0.1)
    file = saved(tmp_path, np.where(world.overlapping(0.0, 1.0), 100, 0), origin=[-0.1, -0.1, 0])
    config = plain_config(map=MapSection(file=file, tracker=True))
    tape = Tape(tmp_path / "drive", config, queue=RecordQueue(100_000, 1e9))
    senses = Senses(flaws=Flaws((7.5, 7.5), (0.1, 0.1)), depth_every=1, fix_period_s=(1e5, 1e5))
    robot = SimulatedRobot(world, PLANT, body_of(config.robot), MOUNTS, Pose(1.0, 1.5, 0.0), senses)
    drive = InProcess(config, MOUNTS, PLANT, robot, puppet(), [tape])
    take = drive.inbox.take
    drive.inbox.take = lambda now_ns: replace(take(now_ns), teleop=Teleop(now_ns, Twist(0.0, 1.0)))  # type: ignore[method-assign]
    ticks = drive.drive_to(Pose(3.0, 1.5, 0.0), limit_s=2.0).ticks
    moved = [tick for tick in ticks if tick.sensed is None and tick.moved_scan is not None]
    assert sum(not np.array_equal(tick.moved_scan.ranges_m, tick.scan.ranges_m) for tick in moved) > 5
    assert ticks[-1].after.tracking.fits > 5
    assert replay(tape.close(), policy=puppet()).identical


def test_a_damaged_map_is_one_line() -> None:
    session = Session("it", {"map": "{"}, 0, plain_config(), MOUNTS)
    with pytest.raises(InputError, match="it: recorded map: not a map"):
        recorded_building("it", session)
