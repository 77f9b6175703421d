"""The two ways of driving: with the same sensor path the same drive, tick for tick; with rendered cameras as often.

Minutes of driving: `make test-long ARGS="-s tests/hil/drive/fast/test_modes_agree.py"` prints the shares.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hil.drive.conditions import load_conditions
from hil.drive.episodes import load_episodes
from hil.drive.fast import robot as fast_robot
from hil.drive.fast.drive import drive_fast
from hil.drive.fast.sensing import FastEyes
from hil.drive.full_runtime import drive_runtime
from hil.drive.robot import Senses
from hil.drive.setting import Outcome, Setting
from hil.evaluate.baselines.registry import grid_seen, make_policy
from hil.evaluate.metrics import wilson
from hil.physics.collision_world import Body
from hil.physics.free_space import Episode
from hil.physics.state_kernels.kernel_set import KernelSet, no_kernels
from hil.physics.state_kernels.state_table import StateTable
from hil.scene.doors import Blocking
from hil.scene.walkers import KINDS, crowd_of
from hil.sensors.flawed_scan import Flaws
from onboard.config.config import Config
from onboard.config.plant_model import MotionTable, Plant
from onboard.navigation import odometry
from onboard.perception.building.reach import reach_in
from onboard.policy.contract import ACTIONS, STOP_ACTION
from onboard.safety import recovery
from onboard.values.errors import InputError
from onboard.values.interfaces import Policy
from onboard.values.messages import Observation, Pose, Scan, Twist
from tests.rigs.learned_models import learned_plant
from tests.rigs.rooms import room, with_box
from tests.rigs.runtime_bench import MOUNTS, PLANT, Puppet

WORLD = with_box(with_box(room(7.0, 5.0), (3.0, 3.3), (1.0, 3.0), (0.0, 0.5)), (5.0, 6.0), (3.5, 4.0), (0.5, 0.9))
EPISODE = Episode(Pose(1.0, 2.0, 0.3), (5.5, 2.0), 5.0)
SETTING = Setting(WORLD, PLANT, Body(), MOUNTS, Config())
CROWD = crowd_of(
    [KINDS["pedestrian"], KINDS["robot"]],
    [1.0, 0.6],
    [np.array([[2.0, 4.0], [2.0, 1.0]]), np.array([[4.0, 0.6], [4.0, 4.0]])],
)
DOOR = Blocking(np.array([[2.4, y, 0.1, 0.0, 2.0, 0.0] for y in np.arange(1.0, 3.0, 0.2)]), 2.0)
MAX_S = 10.0
AS_FAR_AS = 1e-9
"""Poses of the two ways may differ by rounding [m, rad, m/s, rad/s]."""


LOW = with_box(WORLD, (2.0, 2.2), (1.0, 4.0), (0.0, 0.1))
"""A sill across the way, lower than what counts as an obstacle there: it is driven against, and the bumper tells."""
UNSEEN = Config(scan={"z_min_m": 0.15}, recovery={"blocked_s": 0.5})
HARDLY_BACK = Config(
    scan={"z_min_m": 0.15},
    recovery={"blocked_s": 0.5, "backward_s": 0.3},
    rates={"ticks_per_decision": 3, "delay_ticks": 1},
)
"""It touches again before it is clear that what it touches is not behind it (recovery R15)."""


def delayed(command_delay_s: float) -> Setting:
    base = PLANT.base.model_copy(update={"command_delay_s": command_delay_s})
    return replace(SETTING, plant=PLANT.model_copy(update={"base": base}))


def weaker(plant: Plant) -> Plant:
    scaled = {name: 0.7 * getattr(plant.linear, name) for name in ("f_up", "f_down", "acceleration_max")}
    return plant.model_copy(update={"linear": plant.linear.model_copy(update=scaled)})


def configured(**tables: dict[str, object]) -> Setting:
    return replace(SETTING, config=Config.model_validate(tables))


def without(camera: str) -> Setting:
    """A robot that has lost a camera: it turns to look, and drives over ground that it saw a moment ago."""
    depth = {name: mount for name, mount in MOUNTS.depth.items() if name != camera}
    return replace(SETTING, mounts=replace(MOUNTS, depth=depth))


SHAKY = StateTable.model_validate(
    {"period_s": 0.3, "eps_c": 0.1, "sigma": 1.0, "rollouts": 10,
     "action": {"linear_mps": [0.0, 0.6], "angular_radps": [-2.0, 0.0, 2.0]},
     "state": {"x_m": {"weight": 1.0, "settable": True}, "yaw_rad": {"weight": 0.1, "kind": "angle", "settable": True},
               "v_mps": {"weight": 0.2}}}
)  # fmt: skip
SHAKING = KernelSet(
    SHAKY,
    no_kernels(SHAKY)._replace(
        centers=np.array([[2.0, 0.0, 0.5], [4.0, 0.0, 0.5]]),
        physical=np.array([0.7, 1.0]),
        known=np.ones((2, 6), np.bool_),
        maps=np.tile(np.array([[0.0, 0.0, 0.1, 0.15], [0.1, -0.2, 0.0, 0.1], [0.0, 0.0, 0.0, 0.0]]), (2, 6, 1, 1)),
    ),
)
"""Kernels that push the robot about, into walls too."""

MODELS_FOLDER = Path(tempfile.mkdtemp())
HIDDEN = PLANT.model_copy(update={"motion": MotionTable(model="hidden-effects")})

SETTINGS = {
    "a base with hidden effects": replace(SETTING, true_plant=HIDDEN),
    "a learned base": replace(SETTING, true_plant=learned_plant(MODELS_FOLDER, "hybrid-dynamic")),
    "a purely learned base": replace(SETTING, true_plant=learned_plant(MODELS_FOLDER, "mlp")),
    "under kernels": replace(SETTING, kernels=SHAKING),
    "under kernels, delay on the wire": replace(delayed(0.08), kernels=SHAKING),
    "under kernels, noisy scans": replace(SETTING, kernels=SHAKING, senses=Senses(depth_noise=True)),
    "as it is": SETTING,
    "among others": replace(SETTING, crowd=CROWD),
    "before a door": replace(SETTING, crowd=replace(crowd_of([], [], []), blocking=DOOR)),
    "scans do not match": configured(odometry={"scan_matching": False}),
    "scans match, noisy, seldom taken": replace(
        SETTING, senses=Senses(depth_noise=True, depth_every=3, drift_scale=3.0)
    ),
    "scans match, fixes come late": replace(SETTING, senses=Senses(fix_delay_s=1.0, fix_period_s=(0.2, 1.0))),
    "former defaults": configured(
        odometry={"scan_matching": False},
        goal={"arrival_confidence": 0.0, "progress_timeout_s": 60.0},
        limits={"slow_steps": 1, "seen_free_s": 0.0},
    ),
    "the front camera lost": without("front"),
    "a side camera lost, noisy scans": replace(without("front_left"), senses=Senses(depth_noise=True)),
    "lidar": replace(SETTING, scan="lidar"),
    "no localisation": replace(SETTING, senses=Senses(localization=False)),
    "fixes that come late": replace(SETTING, senses=Senses(fix_delay_s=1.0)),
    "fixes that come late and often": replace(SETTING, senses=Senses(fix_delay_s=1.5, fix_period_s=(0.2, 1.0))),
    "another base than believed": replace(SETTING, true_plant=weaker(PLANT)),
    "perfect senses": replace(SETTING, senses=Senses(drift_scale=0.0, localization_scale=0.0)),
    "three times the drift": replace(SETTING, senses=Senses(drift_scale=3.0)),
    "noisy scans": replace(SETTING, senses=Senses(depth_noise=True)),
    "noisy scans, elsewhere": replace(
        configured(limits_scan={"cameras": ["front"]}), senses=Senses(depth_noise=True, depth_every=3)
    ),
    "cameras with flaws": replace(
        SETTING,
        senses=Senses(depth_noise=True, slip=0.05, flaws=Flaws((5.0, 30.0), (0.03, 0.09), 0.01, 1.0), depth_every=1),
    ),
    "cameras with flaws, among others": replace(
        SETTING, crowd=CROWD, senses=Senses(flaws=Flaws((5.0, 30.0), (0.03, 0.09)), depth_every=1)
    ),
    "a scan every tick": replace(SETTING, senses=Senses(depth_every=1)),
    "a scan every third tick": replace(SETTING, senses=Senses(depth_every=3)),
    "delay on the wire": delayed(0.08),
    "ramps": configured(limits={"acceleration_mps2": 1.0, "angular_acceleration_radps2": 6.0}),
    "lower speeds": configured(limits={"v_max_mps": 0.5, "w_max_radps": 2.0}),
    "the base's own pose": configured(odometry={"source": "pose"}),
    "corrected wheels": configured(odometry={"correction": [1.02, 0.97, 0.01]}),
    "corrected, the base's own pose": configured(odometry={"correction": [1.02, 0.97, 0.01], "source": "pose"}),
    "wheels beyond belief": replace(SETTING),
    "limits look elsewhere": configured(limits_scan={"cameras": ["front"]}),
    "blocked sooner": configured(recovery={"blocked_s": 0.5}),
    "blocked at once": configured(recovery={"blocked_s": 0.1}, rates={"delay_ticks": 5}),
    "what no camera sees": replace(SETTING, config=UNSEEN, world=LOW),
    "what no camera sees, delay on the wire": replace(delayed(0.08), config=UNSEEN, world=LOW),
    "what no camera sees, by a scan every third tick": replace(
        SETTING, config=UNSEEN, world=LOW, senses=Senses(depth_every=3)
    ),
    "what no camera sees, backing off hardly": replace(SETTING, config=HARDLY_BACK, world=LOW),
    "no patience": configured(goal={"progress_timeout_s": 3.0}),
    "little time": configured(goal={"timeout_s": 4.0}),
    "other rates": configured(rates={"ticks_per_decision": 7, "delay_ticks": 5}),
}

BY_MAP = reach_in(grid_seen(SETTING, WORLD), SETTING.body.inner_m)
SETTINGS["the tracker alone"] = replace(load_conditions()["tracked"].of(SETTING), reach=BY_MAP)
SETTINGS["the tracker alone, among others"] = replace(SETTINGS["the tracker alone"], crowd=CROWD)
EMPTY_MAP = reach_in(grid_seen(SETTING, room(9.0, 9.0)), SETTING.body.inner_m)
SETTINGS["a map that does not fit"] = replace(SETTING, reach=EMPTY_MAP)
SETTINGS["lost by the tracker"] = replace(SETTINGS["the tracker alone"], reach=EMPTY_MAP)

FAST, SLOW, LEFT, RIGHT = (ACTIONS.index(Twist(*pair)) for pair in ((1.0, 0.0), (0.3, 0.0), (0.6, 1.0), (0.6, -2.0)))


def pushing(observation: Observation) -> int:
    """Straight on, whatever stands there."""
    return FAST


def wandering(observation: Observation) -> int:
    """Turn by what is seen and believed, so that any difference of the ways would grow."""
    ahead_m = float(observation.scan.ranges_m[85:95].min())
    return LEFT if ahead_m < 1.0 else RIGHT if observation.filtered.pose.y_m > 0.3 else FAST


def curving(observation: Observation) -> int:
    """Straight on, then along an arc, whatever stands there."""
    return FAST if observation.filtered.pose.x_m < 0.5 else LEFT


TURN = ACTIONS.index(Twist(0.0, 3.0))


def spinning(observation: Observation) -> int:
    """Straight on, then turn for ever, as before a goal that cannot be reached."""
    return FAST if observation.filtered.pose.x_m < 0.8 else TURN


STYLES: dict[str, Callable[[Observation], int]] = {
    "pushing": pushing,
    "wandering": wandering,
    "curving": curving,
    "spinning": spinning,
}


def differences(fast: Outcome, whole: Outcome) -> list[str]:
    """Return the names of what differs between two outcomes by more than rounding."""
    names = [
        name
        for name in ("reached", "ended", "contacts", "bumps", "time_s")
        if getattr(fast, name) != getattr(whole, name)
    ]
    for name in ("path_m", "distance_m", "min_clearance_m", "actions", "trace"):
        ours, theirs = getattr(fast, name), getattr(whole, name)
        if np.shape(ours) != np.shape(theirs) or not np.allclose(ours, theirs, rtol=0.0, atol=AS_FAR_AS):
            names.append(name)
    return names


PUSHED = (
    "a base with hidden effects",
    "a learned base",
    "under kernels",
    "as it is",
    "among others",
    "before a door",
    "noisy scans",
    "limits look elsewhere",
    "what no camera sees",
    "what no camera sees, delay on the wire",
    "what no camera sees, by a scan every third tick",
    "what no camera sees, backing off hardly",
    "blocked sooner",
    "blocked at once",
    "wheels beyond belief",
    "the front camera lost",
)
PAIRED = {
    "a purely learned base", "under kernels, delay on the wire", "under kernels, noisy scans",
    "scans match, noisy, seldom taken", "scans match, fixes come late", "a side camera lost, noisy scans",
    "fixes that come late and often", "three times the drift", "noisy scans, elsewhere", "a scan every third tick",
    "cameras with flaws, among others", "corrected, the base's own pose",
    "what no camera sees, delay on the wire", "what no camera sees, by a scan every third tick",
    "the tracker alone, among others",
}  # fmt: skip
"""Pairs of what other settings have alone, and other sizes of it: for `make test-long`."""
ONCE = {("a base with hidden effects", "pushing"), ("a learned base", "pushing"), ("before a door", "pushing")}
"""Drives whose setting makes its difference while the robot wanders."""
STYLED = [(name, "wandering") for name in SETTINGS] + [(name, "pushing") for name in PUSHED]
STYLED += [(name, "curving") for name in SETTINGS if name.startswith("what no camera sees")]
DRIVES = [pytest.param(*row, marks=pytest.mark.long if row[0] in PAIRED or row in ONCE else ()) for row in STYLED]


@pytest.mark.parametrize(("name", "style"), DRIVES)
def test_the_whole_runtime_drives_as_the_fast_loop(name, style, monkeypatch):
    setting = SETTINGS[name]
    if name == "wheels beyond belief":
        for module in (odometry, fast_robot):
            monkeypatch.setattr(module, "MAX_SPEED_MPS", 0.5)
    fast = drive_fast(setting, EPISODE, Puppet(STYLES[style], reset_s=2.0), seed=3, max_s=MAX_S)
    whole = drive_runtime(setting, EPISODE, Puppet(STYLES[style], reset_s=2.0), seed=3, max_s=MAX_S)
    assert differences(fast, whole) == []


@pytest.mark.parametrize("name", ["as it is", "no localisation", "noisy scans", "what no camera sees"])
def test_they_agree_on_a_robot_that_turns_on_the_spot(name, monkeypatch):
    """The sill holds it with the bumper on; elsewhere it turns freely, for less time than in a real drive."""
    monkeypatch.setattr(recovery, "HELD_S", 3.0)
    outcomes = [
        drive(SETTINGS[name], EPISODE, Puppet(spinning, reset_s=2.0), seed=3, max_s=MAX_S)
        for drive in (drive_fast, drive_runtime)
    ]
    assert differences(*outcomes) == []
    assert outcomes[0].trace[:, 4].min() < -0.1, "it backs off"


POST = with_box(with_box(room(7.0, 5.0), (3.35, 3.6), (1.5, 3.5), (0.0, 1.0)), (2.85, 2.9), (2.75, 2.8), (0.0, 1.0))
"""A wall before the robot, and a post that it sees beside it before it turns. Then it is between two cameras' views."""
BESIDE_POST = Episode(Pose(3.0, 2.5, 0.6), (5.5, 2.0), 5.0)


def turning_to_the_wall(observation: Observation) -> int:
    """Turn to the wall, then push towards it."""
    turned = observation.filtered.pose.yaw_rad < -0.3
    return SLOW if turned else ACTIONS.index(Twist(0.0, -1.0))


@pytest.mark.parametrize("localization", [True, False])
def test_they_agree_on_backing_off_beside_what_was_seen_before(localization):
    setting = replace(SETTING, world=POST, senses=Senses(drift_scale=0.0, localization=localization))
    outcomes = [
        drive(setting, BESIDE_POST, Puppet(turning_to_the_wall), seed=3, max_s=20.0)
        for drive in (drive_fast, drive_runtime)
    ]
    assert outcomes[0].trace[:, 5].min() < -0.3, "it turns"
    assert [outcome.contacts for outcome in outcomes] == [0, 0]
    assert differences(*outcomes) == []


STOPS_AT = (2.6, 2.0)
UNCERTAIN = Config(goal={"arrival_confidence": 0.999}, odometry={"scan_matching": False})


def arriving(observation: Observation) -> int:
    """Straight on, and stop where the goal is by the filter."""
    pose, (x, y) = observation.filtered.pose, observation.goal_xy_m
    return STOP_ACTION if np.hypot(pose.x_m - x, pose.y_m - y) < 0.15 else SLOW


@pytest.mark.parametrize("name", ["as it is", "no localisation", "fixes that come late", "three times the drift"])
def test_they_agree_on_an_uncertain_arrival(name):
    """It turns on the spot until a fix, for a bounded time; without localisation it stops at once."""
    setting = replace(SETTINGS[name], config=UNCERTAIN)
    straight = Episode(Pose(1.0, 2.0, 0.0), STOPS_AT, 1.6)
    outcomes = [drive(setting, straight, Puppet(arriving), seed=3, max_s=30.0) for drive in (drive_fast, drive_runtime)]
    assert differences(*outcomes) == []
    assert outcomes[0].ended == "stop"
    turned = np.abs(outcomes[0].trace[:, 5]).max() > 0.5
    assert turned == (name != "no localisation")


@pytest.mark.parametrize("name", ["as it is", "no localisation", "noisy scans"])
def test_they_agree_on_an_occupied_goal(name):
    occupied = replace(EPISODE, goal_xy_m=(3.2, 2.0))
    outcomes = [
        drive(SETTINGS[name], occupied, Puppet(pushing), seed=3, max_s=MAX_S) for drive in (drive_fast, drive_runtime)
    ]
    assert differences(*outcomes) == []
    assert outcomes[0].ended == "goal is occupied"
    assert outcomes[0].time_s < 5.5


def test_policies_are_given_the_same():
    fast, whole = Puppet(wandering, reset_s=2.0), Puppet(wandering, reset_s=2.0)
    drive_fast(SETTING, EPISODE, fast, seed=3, max_s=MAX_S)
    drive_runtime(SETTING, EPISODE, whole, seed=3, max_s=MAX_S)
    assert fast.remembered == whole.remembered[: len(fast.seen)], "the runtime lives its last tick to its end"
    assert len(whole.seen) - len(fast.seen) in (0, 1)
    for ours, theirs in zip(fast.seen, whole.seen[: len(fast.seen)], strict=True):
        assert (ours.stamp_ns, ours.scan.stamp_ns) == (theirs.stamp_ns, theirs.scan.stamp_ns)
        assert (ours.previous_action, ours.localization_age_ns) == (theirs.previous_action, theirs.localization_age_ns)
        np.testing.assert_array_equal(ours.scan.ranges_m, theirs.scan.ranges_m)
        np.testing.assert_array_equal(ours.scan.seen, theirs.scan.seen)
        assert ours.goal_xy_m == pytest.approx(theirs.goal_xy_m, abs=AS_FAR_AS)


def test_they_tell_what_differs():
    one = drive_fast(SETTING, EPISODE, Puppet(pushing), seed=3, max_s=1.0)
    other = drive_fast(SETTING, EPISODE, Puppet(wandering), seed=3, max_s=2.0)
    assert differences(one, one) == []
    assert {"time_s", "trace"} <= set(differences(one, other))


def test_a_committed_episode_is_driven_alike():
    known = load_episodes("apartment")
    fast, whole = both(replace(SETTING, world=known.world), known.episodes[0], "reactive", seed=0)
    assert differences(fast, whole) == []


REFUSED = [
    ("without limits", replace(SETTING, limits=False), False, "the whole runtime cannot leave the limits out"),
    ("a rendered lidar", replace(SETTING, scan="lidar"), True, "leave --rendered or --scan out"),
]


@pytest.mark.parametrize(("setting", "rendered", "message"), [row[1:] for row in REFUSED], ids=[r[0] for r in REFUSED])
def test_what_the_whole_runtime_cannot_do_is_refused(setting, rendered, message):
    with pytest.raises(InputError, match=message):
        drive_runtime(setting, EPISODE, Puppet(pushing), seed=1, rendered=rendered)


def both(setting: Setting, episode: Episode, name: str, seed: int) -> tuple[Outcome, Outcome]:
    def policy() -> Policy:
        return make_policy(name, setting, episode)

    return drive_fast(setting, episode, policy(), seed), drive_runtime(setting, episode, policy(), seed)


LONG_MAPS = ("gdc1", "ghc7", "willow", "lgrc1", "apartment", "depot")
RENDERED_MAPS = ("gdc1", "ghc7", "willow")
RENDERED_EPISODES = 12
ENOUGH = 0.99
"""Share of episodes that must end alike with the same sensor path."""


def show(line: str) -> None:
    os.write(2, f"{line}\n".encode())


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("policy", ["reactive", "planner"])
def test_committed_episodes_end_alike(policy):
    alike = same = total = 0
    for name in LONG_MAPS:
        known = load_episodes(name)
        setting = replace(SETTING, world=known.world)
        for number, episode in enumerate(known.episodes):
            fast, whole = both(setting, episode, policy, seed=number)
            differs = differences(fast, whole)
            total, same = total + 1, same + (not differs)
            alike += (fast.reached, fast.ended) == (whole.reached, whole.ended)
            if differs:
                show(f"{name} {number}: {', '.join(differs)}: {fast.ended} and {whole.ended}")
        show(f"{policy}, up to {name}: {alike} of {total} end alike, {same} are the same tick for tick")
    assert total >= 100
    assert alike >= ENOUGH * total


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_rendered_cameras_reach_as_often():
    """Of the two shares of goals reached, one lies in the 95 % interval of the other.

    Wilson's interval of nearly all leaves all out, though not the other way round.
    """
    reached = rendered = total = 0
    for name in RENDERED_MAPS:
        known = load_episodes(name)
        setting = replace(SETTING, world=known.world)
        for number, episode in enumerate(known.episodes[:RENDERED_EPISODES]):
            policies = [make_policy("reactive", setting, episode) for _ in range(2)]
            total += 1
            reached += drive_fast(setting, episode, policies[0], seed=number).reached
            rendered += drive_runtime(setting, episode, policies[1], seed=number, rendered=True).reached
        show(f"up to {name}: of {total} goals {reached} reached with the direct scan, {rendered} with rendered cameras")
    assert any(within(one / total, wilson(other, total)) for one, other in ((reached, rendered), (rendered, reached)))


def within(share: float, interval: tuple[float, float] | None) -> bool:
    return interval is not None and interval[0] <= share <= interval[1]


def test_what_was_seen_is_recalled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the bumper is on, the recovery runs in every tick."""
    poses: list[int] = []
    scan_from = FastEyes.scan_from

    def counted(eyes: FastEyes, pose: Pose, tick: int) -> Scan:
        poses.append(tick)
        return scan_from(eyes, pose, tick)

    monkeypatch.setattr(FastEyes, "scan_from", counted)
    setting = replace(SETTING, world=LOW, config=UNSEEN)
    drive_fast(setting, EPISODE, Puppet(pushing), seed=3, max_s=MAX_S)
    assert len(poses) > 10
    assert len(poses) == len({*poses})
