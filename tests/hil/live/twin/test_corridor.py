"""Paper 4's corridor: who stands and walks where, what its agent sees, and that the shipped agent passes it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from hil.live.twin.corridor import (
    AREA_Y_M,
    CORRIDOR,
    END_X_M,
    MODEL,
    SPREAD,
    STANDING_X_M,
    START,
    WALKING_X_M,
    Corridor,
    CorridorDrive,
    site_of,
)
from hil.live.twin.scene import PERSON_MPS, SiteOptions
from hil.physics.simulated_base import STEP_S
from hil.scene.walkers import bodies_of, walk
from hil.sensors.lidar import CLOUD_HEIGHT_M, cloud_rays, lidar_cloud
from onboard.assembly.policies import policy_maker
from onboard.config.config import Config, PolicySection
from onboard.policy.network_policy import NetworkPolicy
from onboard.values.errors import InputError
from onboard.values.messages import STOP, Pose, Twist
from tests.hil.live.twin.twin_places import BODY, PLANT
from tests.rigs.machine.processes import done
from tests.rigs.network.loopback import free_domain


@pytest.fixture(scope="module")
def site() -> Corridor:
    made = site_of(SiteOptions(CORRIDOR, seed=1), BODY, PLANT)
    assert isinstance(made, Corridor)
    return made


def test_a_life_is_the_same_every_time_and_the_next_one_is_another(site: Corridor) -> None:
    first, second, again = site.life(0), site.life(1), site.life(1)
    assert first.start == site.episode.start
    assert second.start == again.start != first.start
    assert second.crowd is not None
    assert again.crowd is not None
    np.testing.assert_array_equal(second.crowd.corners_m, again.crowd.corners_m)
    at = (second.start.x_m, second.start.y_m, second.start.yaw_rad)
    assert all(abs(value - mean) <= most for value, mean, most in zip(at, START, SPREAD, strict=True))


def test_people_stand_or_walk_in_their_spawn_areas(site: Corridor) -> None:
    areas = np.array([*STANDING_X_M, *WALKING_X_M])
    for number in range(3):
        first = crowd = site.life(number).crowd
        assert crowd is not None
        for _ in range(300):
            crowd = walk(crowd, STEP_S)
            x_m, y_m = crowd.state[:, 0], crowd.state[:, 1]
            assert ((areas[:, 0] <= x_m) & (x_m <= areas[:, 1] + 0.01)).all()
            assert ((AREA_Y_M[0] <= y_m) & (y_m <= AREA_Y_M[1])).all()
        moved_m = np.hypot(*(crowd.state - first.state)[:, :2].T)
        assert (moved_m[: len(STANDING_X_M)] < 0.01).all()
        assert (moved_m[len(STANDING_X_M) :] > 0.01).all()


def test_options_of_another_place_are_refused() -> None:
    with pytest.raises(InputError, match=r"map corridor: has its own start and people; remove --episode"):
        site_of(SiteOptions(CORRIDOR, episode=1), BODY, PLANT)


def test_a_person_in_view_halves_the_speed_on_the_same_arc(site: Corridor) -> None:
    drive = CorridorDrive(site.life(0), Pose(2.0, 1.5, 0.0))
    for _ in range(45):
        drive.step(Twist(1.0, 0.1))
    assert drive.state.twist.v_mps == pytest.approx(PERSON_MPS, abs=0.02)
    assert drive.state.twist.w_radps == pytest.approx(0.1 * PERSON_MPS, abs=0.02)


@pytest.fixture(scope="module")
def policy() -> NetworkPolicy:
    made = policy_maker(Config(policy=PolicySection(model=str(MODEL))), PLANT)()
    assert isinstance(made, NetworkPolicy)
    return made


def test_the_three_ranges_are_those_of_the_paper_s_lidar(site: Corridor, policy: NetworkPolicy) -> None:
    """The feed takes them from the twin's scan; the cloud, cut to the same sectors, shows the same."""
    (feed,) = policy.manifest.inputs
    assert feed.bearings_deg == (-30.0, 0.0, 30.0)
    for number, at in enumerate((Pose(3.0, 1.0, 0.3), Pose(8.0, 2.2, -0.4), Pose(14.0, 1.5, 0.0))):
        life = site.life(number)
        drive = CorridorDrive(life, at)
        cloud = lidar_cloud(life.world, cloud_rays(), at, bodies_of(drive.crowd))
        level = cloud[np.abs(cloud[:, 2] - CLOUD_HEIGHT_M) < 0.5]
        bearing_deg, away_m = np.degrees(np.arctan2(level[:, 1], level[:, 0])), np.hypot(level[:, 0], level[:, 1])
        for shown, centre_deg in zip(feed.values(drive.observation(), ()), feed.bearings_deg, strict=True):
            inside = np.abs(bearing_deg - centre_deg) <= feed.width_deg / 2.0
            nearest_m = min(float(away_m[inside].min(initial=math.inf)), feed.max_range_m)
            assert feed.max_range_m * shown == pytest.approx(nearest_m, abs=0.15)


def test_the_shipped_agent_passes_lives_that_no_training_saw(site: Corridor, policy: NetworkPolicy) -> None:
    passed = 0
    for number in range(5000, 5003):
        drive = CorridorDrive(site.life(number))
        for _ in range(300):
            decision, _ = policy.decide(drive.observation(), policy.initial_memory())
            drive.decide(decision.own or STOP)
            if drive.passed or drive.touched:
                break
        passed += drive.passed and not drive.touched
    assert passed >= 2


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_robot_in_a_small_room_drives_its_twin_along_the_corridor(tmp_path: Path) -> None:
    command = done("hil", "twin-demo", "--corridor", "--json", "-", folder=tmp_path, domain=free_domain())
    result = json.loads(command.out)
    assert command.process.returncode == 0, result
    assert (result["corridor"], result["reached"]) == (True, True)
    assert (result["virtual_contacts"], result["real_contacts"], result["distance_to_goal_m"]) == (0, 0, 0.0)
    assert result["twin_path_m"] > END_X_M - START[0] - SPREAD[0]
    assert result["frames_with_a_person_in_view"] > 0
