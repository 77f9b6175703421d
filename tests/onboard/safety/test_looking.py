"""Turning to look where no camera sees ahead: rules K1 to K9 of `looking.py`, on a robot that turns as it is told."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import cos, degrees, inf, pi, radians, sin

import numpy as np
import pytest

from onboard.perception import free_ground
from onboard.perception.collision import BIN_CENTERS_RAD
from onboard.perception.free_ground import FreeGround
from onboard.safety import looking
from onboard.safety.looking import AGAIN_S, LONGEST_S, LookingState, Situation, turn_to_see
from onboard.values.clock import NS_PER_S
from onboard.values.geometry import apply, inverse
from onboard.values.messages import Pose, Scan, Twist
from tests.onboard.safety.limits_bench import BOUNDS, NOW_NS, TICK_NS, bounds_with, scan_of

FRONT_LOST = (-33.0, 33.0)
HERE = Pose(2.0, -1.0, 0.3)


def scan_at(now_ns: int, lost: tuple[float, float] | None = FRONT_LOST) -> Scan:
    return scan_of(stamp_ns=now_ns, blind=lost)


class Base:
    """A base that turns exactly as the override says, and a memory of the ground."""

    def __init__(
        self, lost: tuple[float, float] | None = FRONT_LOST, bounds: object = BOUNDS, rate: float = inf
    ) -> None:
        self.rate = rate
        self.lost, self.bounds = lost, bounds
        self.now_ns, self.pose = NOW_NS, HERE
        self.ground, self.state = FreeGround(), LookingState()
        self.posts: list[tuple[float, float]] = []
        self.turns: list[Twist | None] = []

    def tick(self, *, active: bool = True, near: bool = False, frozen: bool = False) -> Twist | None:
        self.now_ns += TICK_NS
        posts = [apply(inverse(self.pose), post) for post in self.posts]
        scan = scan_of(*posts, stamp_ns=self.now_ns, blind=self.lost)
        self.ground = free_ground.advance(self.ground, scan, self.pose, self.pose)
        situation = Situation(active, near, self.pose, scan, self.ground)
        self.state, turn = looking.advance(self.state, situation, self.bounds, self.now_ns)  # type: ignore[arg-type]
        if turn is not None and not frozen:
            turned = min(max(turn.w_radps, -self.rate), self.rate)
            self.pose = replace(self.pose, yaw_rad=self.pose.yaw_rad + turned * TICK_NS / NS_PER_S)
        self.turns.append(turn)
        return turn

    def run(self, seconds: float, **how: object) -> list[Twist | None]:
        first = len(self.turns)
        for _ in range(round(seconds * NS_PER_S / TICK_NS)):
            self.tick(**how)  # type: ignore[arg-type]
        return self.turns[first:]

    @property
    def ahead_m(self) -> float:
        scan, bounds = scan_at(self.now_ns), BOUNDS
        return free_ground.free_path_m(
            self.ground, scan, self.pose, self.now_ns, bounds.seen_free_ns, bounds.footprint, bounds.swept
        )


def looks(turns: list[Twist | None]) -> int:
    """Return the number of looks in a sequence of overrides."""
    on = [False, *(turn is not None for turn in turns)]
    return sum(now and not before for before, now in pairwise(on))


def test_k1_k4_it_turns_until_the_way_is_seen_and_back_to_its_heading() -> None:
    base = Base()
    assert base.ahead_m < 0.3
    turns = base.run(4.0)
    assert looks(turns) == 1
    assert base.ahead_m > 1.0
    assert degrees(base.pose.yaw_rad) == pytest.approx(degrees(HERE.yaw_rad), abs=6.0)
    assert all(turn is None or turn.v_mps == 0.0 for turn in turns)


@pytest.mark.parametrize(
    ("what", "lost", "how"),
    [
        ("cameras see ahead", None, {}),
        ("only a flank is blind", (37.0, 107.0), {}),
        ("no drive", FRONT_LOST, {"active": False}),
        ("at the goal", FRONT_LOST, {"near": True}),
        ("no camera sees anything", (-180.0, 180.0), {}),
        ("only the rear camera sees", (-137.0, 137.0), {}),
    ],
)
def test_k1_k7_no_look(what: str, lost: tuple[float, float] | None, how: dict[str, object]) -> None:
    assert looks(Base(lost).run(3.0, **how)) == 0


def test_off_with_the_memory() -> None:
    assert looks(Base(bounds=bounds_with(seen_free_s=0.0)).run(3.0)) == 0


def test_k1_a_robot_that_drives_or_turns_on_does_not_look() -> None:
    base = Base()
    for tick in range(90):
        base.pose = Pose(0.01 * tick, 0.0, 0.0)
        assert base.tick(frozen=True) is None
    base = Base()
    for tick in range(90):
        base.pose = Pose(0.0, 0.0, 0.1 * tick)
        assert base.tick(frozen=True) is None


def test_k1_a_robot_that_turns_to_and_fro_stands() -> None:
    base = Base()
    for tick in range(30):
        base.pose = Pose(0.0, 0.0, 0.15 * (tick // 10 % 2))
        base.tick(frozen=True)
    assert base.turns[-1] is not None


@pytest.mark.parametrize(
    ("what", "seen_deg", "turn_deg"),
    [
        ("a front camera lost", [(-107, -33), (33, 107)], -104.0),
        ("more to see on the right", [(-107, -33), (33, 60)], 104.0),
        ("a narrow gap", [(-107, -10), (10, 107)], -56.0),
        ("not straight ahead", [(-107, -20), (60, 107)], 116.0),
        ("front and left lost", [(-107, -33), (137, 180)], None),
        ("only behind", [(-180, -137), (137, 180)], None),
        ("nothing", [], None),
    ],
)
def test_k2_the_blind_sector_passes_the_wider_view(
    what: str, seen_deg: list[tuple[int, int]], turn_deg: float | None
) -> None:
    centers = np.degrees(BIN_CENTERS_RAD)
    looked = np.array([any(first < center < last for first, last in seen_deg) for center in centers])
    found = turn_to_see(looked)
    assert (None if found is None else degrees(found)) == (
        None if turn_deg is None else pytest.approx(turn_deg, abs=2.1)
    )


def test_k3_it_turns_back_as_soon_as_enough_is_known() -> None:
    base, farthest_rad = Base(), 0.0
    for _ in range(120):
        base.tick()
        farthest_rad = max(farthest_rad, abs(base.pose.yaw_rad - HERE.yaw_rad))
    whole_rad = turn_to_see(scan_at(0).seen)
    assert whole_rad is not None
    assert radians(40.0) < farthest_rad < abs(whole_rad)


def test_k3_before_a_post_it_turns_by_the_whole_angle() -> None:
    base, farthest_rad = Base(), 0.0
    base.posts = [(HERE.x_m + 0.8 * cos(HERE.yaw_rad), HERE.y_m + 0.8 * sin(HERE.yaw_rad))]
    for _ in range(150):
        base.tick()
        farthest_rad = max(farthest_rad, abs(base.pose.yaw_rad - HERE.yaw_rad))
    whole_rad = turn_to_see(scan_at(0).seen)
    assert whole_rad is not None
    assert farthest_rad == pytest.approx(abs(whole_rad), abs=0.1)
    assert 0.1 < base.ahead_m < 0.55
    assert base.turns[-1] is None


def test_k5_a_look_that_does_not_turn_the_robot_ends() -> None:
    base = Base()
    turns = base.run(LONGEST_S + 2.0, frozen=True)
    assert looks(turns) == 1
    assert turns[-1] is None


def test_k6_before_ground_that_stays_unknown_it_waits_before_it_looks_again() -> None:
    base = Base()
    base.bounds = bounds_with(seen_free_s=0.01)
    turns = base.run(20.0)
    assert 2 <= looks(turns) <= 1 + 20.0 / AGAIN_S
    base = Base()
    base.bounds = bounds_with(seen_free_s=0.01)
    base.run(5.0)
    base.pose = Pose(base.pose.x_m + 0.2, base.pose.y_m, base.pose.yaw_rad)
    assert looks(base.run(1.0)) == 1


def test_k7_k8_it_ends_at_once() -> None:
    base = Base()
    base.run(1.0)
    assert base.state.look is not None
    assert base.tick(active=False) is None
    assert base.state.look is None
    base = Base()
    base.run(1.0)
    base.now_ns -= NS_PER_S
    assert base.tick() is None
    assert base.state.look is None


def test_k7_a_camera_that_looks_ahead_again_ends_it() -> None:
    base = Base()
    base.run(1.0)
    base.lost = None
    assert base.tick() is None
    assert base.state.look is None


def test_k7_it_ends_too_if_only_the_camera_ahead_looks_again() -> None:
    base = Base()
    base.run(1.0)
    base.lost = (37.0, 107.0)
    assert base.tick() is None


def test_k5_k6_a_base_that_turns_too_slowly_does_not_look_again_at_once() -> None:
    base = Base(rate=0.3)
    turns = base.run(60.0)
    assert looks(turns) <= 1 + 60.0 / (LONGEST_S + AGAIN_S) + 1
    assert sum(turn is not None for turn in turns) < 0.6 * len(turns)


def test_k9_the_override_is_a_bounded_turn_in_place() -> None:
    turns = [turn for turn in Base().run(5.0) if turn is not None]
    assert turns
    assert all(turn.v_mps == 0.0 and 0.0 < abs(turn.w_radps) <= looking.LOOK_RADPS for turn in turns)
    assert np.isfinite([turn.w_radps for turn in turns]).all()


def test_a_look_passes_the_heading_of_pi() -> None:
    base = Base()
    base.pose = Pose(0.0, 0.0, pi - 0.1)
    turns = base.run(4.0)
    assert looks(turns) == 1
    assert base.ahead_m > 1.0
    assert turns[-1] is None
