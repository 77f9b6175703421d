"""What a runtime on the simulated clock gets to see: rendered images, or scans by topic."""

from __future__ import annotations

import numpy as np
import pytest

from hil.drive.fast.robot import START_NS
from hil.drive.full_runtime import drive_runtime
from hil.drive.robot import Senses, SimulatedRobot
from hil.drive.sensing import (
    LIMITS_TOPIC,
    POLICY_TOPIC,
    STEP_NS,
    Cameras,
    CamerasAndLidars,
    Caster,
    SimulatedInbox,
    without_cameras,
)
from hil.drive.setting import Setting
from hil.physics.collision_world import Body
from hil.physics.free_space import Episode
from hil.sensors.direct_scan import direct_scan
from hil.sensors.flawed_scan import Flaws
from onboard.assembly.robot import build_rigs, lasers_of, used_mounts
from onboard.config.config import Config, ScanSection
from onboard.policy.contract import ACTIONS
from onboard.values.messages import Inputs, Pose, Twist
from tests.rigs.rooms import room
from tests.rigs.runtime_bench import MOUNTS, PLANT, Puppet

WORLD = room(5.0, 4.0)
START = Pose(2.0, 2.0, 0.0)
LIDAR_ONLY = Config(scan={"topic": "laser"}, cameras={"source": "none", "color": "none"})
FORWARD = ACTIONS.index(Twist(0.6, 0.0))


def robot() -> SimulatedRobot:
    return SimulatedRobot(WORLD, PLANT, Body(), MOUNTS, START, Senses(seed=1))


def lived(inbox: SimulatedInbox, ticks: int) -> list[Inputs]:
    return [inbox.take(START_NS + tick * STEP_NS) for tick in range(1, ticks + 1)]


@pytest.mark.parametrize("color", [True, False])
def test_cameras_see_at_their_rates(color):
    living = robot()
    inputs = lived(SimulatedInbox(living, START_NS, Cameras(living, color)), 6)
    assert all(set(tick.depth) == set(MOUNTS.depth) for tick in inputs)
    assert [tick.depth["front"].stamp_ns - START_NS for tick in inputs] == [STEP_NS * n for n in (1, 1, 3, 3, 5, 5)]
    if color:
        assert [tick.color.stamp_ns - START_NS for tick in inputs] == [STEP_NS * n for n in (1, 1, 1, 1, 1, 6)]
    else:
        assert all(tick.color is None for tick in inputs)


def test_cameras_with_times_of_their_own_send_each_image_late():
    flaws = Flaws((5.0, 15.0), (0.1, 0.1))
    living = SimulatedRobot(WORLD, PLANT, Body(), MOUNTS, START, Senses(seed=1, flaws=flaws, depth_every=1))
    inputs = lived(SimulatedInbox(living, START_NS, Cameras(living, color=False)), 20)
    times = living.camera_times
    assert len({(one.period, one.first) for one in times.values()}) > 1
    for tick, seen in enumerate(inputs, 1):
        for name, one in times.items():
            newest = one.newest(tick)
            if tick - newest >= one.age:
                assert seen.depth[name].stamp_ns == START_NS + newest * STEP_NS
            else:
                assert name not in seen.depth


def test_scans_are_cast_in_the_same_ticks():
    living, scan = robot(), direct_scan(WORLD, MOUNTS, ScanSection(), "fused")
    inbox = SimulatedInbox(living, START_NS, Caster({POLICY_TOPIC: scan}, Cameras(living, color=False)))
    inputs = lived(inbox, 4)
    assert [tick.scans[POLICY_TOPIC].stamp_ns - START_NS for tick in inputs] == [STEP_NS * n for n in (1, 1, 3, 3)]
    assert not any(tick.depth for tick in inputs)
    np.testing.assert_array_equal(inputs[0].scans[POLICY_TOPIC].ranges_m, scan.ranges(START))


def test_a_configuration_without_cameras_takes_scans_from_topics():
    config = without_cameras(Config(limits_scan={}))
    assert config.limits_scan is not None
    assert (config.scan.topic, config.limits_scan.topic) == (POLICY_TOPIC, LIMITS_TOPIC)
    assert without_cameras(Config()).limits_scan is None
    rig, _ = build_rigs(config, MOUNTS)
    assert not rig.views


def test_a_drive_with_rendered_cameras_sees_what_they_fuse():
    setting = Setting(WORLD, PLANT, Body(), MOUNTS, Config())
    episode = Episode(START, (4.0, 2.0), 2.0)
    rendered, cast = Puppet(FORWARD), Puppet(FORWARD)
    seen = drive_runtime(setting, episode, rendered, seed=1, rendered=True, max_s=1.0)
    direct = drive_runtime(setting, episode, cast, seed=1, max_s=1.0)
    np.testing.assert_array_equal(seen.trace, direct.trace)
    ours, theirs = rendered.seen[0].scan, cast.seen[0].scan
    assert (ours.stamp_ns, rendered.seen[0].color) == (theirs.stamp_ns, None)
    both = np.isfinite(ours.ranges_m) & np.isfinite(theirs.ranges_m)
    assert both.sum() > 100
    assert np.median(np.abs(ours.ranges_m[both] - theirs.ranges_m[both])) < 0.05


def test_a_lidar_is_read_at_its_rate_as_the_runtime_reads_its_message():
    lasers = lasers_of(Config(scan={"topic": "laser", "laser": (0.1, 0.0, 180.0)}))
    living = SimulatedRobot(WORLD, PLANT, Body(), used_mounts(LIDAR_ONLY, MOUNTS), START, Senses(seed=1), lasers=lasers)
    inputs = lived(SimulatedInbox(living, START_NS, CamerasAndLidars(living, lasers, color=False)), 7)
    stamps = [tick.scans["laser"].stamp_ns - START_NS if tick.scans else None for tick in inputs]
    assert stamps == [None, None, *(STEP_NS * n for n in (3, 3, 3, 6, 6))]
    assert not any(tick.depth for tick in inputs)
    cast = direct_scan(WORLD, MOUNTS, LIDAR_ONLY.scan, "fused").ranges(START)
    np.testing.assert_allclose(inputs[-1].scans["laser"].ranges_m, cast, atol=0.1)


@pytest.mark.parametrize("rendered", [True, False])
def test_a_robot_with_a_lidar_alone_stops_before_a_wall(rendered):
    """Cast or rendered: the limits see the wall that no camera looks at."""
    config = LIDAR_ONLY.model_copy(update={"rates": Config().rates})
    setting = Setting(WORLD, PLANT, Body(), used_mounts(config, MOUNTS), config, Senses(localization=False))
    outcome = drive_runtime(setting, Episode(START, (4.9, 2.0), 2.9), Puppet(FORWARD), 1, rendered=rendered, max_s=8.0)
    assert outcome.contacts == 0
    assert 2.0 < outcome.trace[-1, 1] < 5.0 - 0.25
