"""A lane is the evaluation's drive, stopped at every decision."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engines.train.rollout import vector_env
from engines.train.rollout.collector import plain_robot
from engines.train.rollout.expert import Expert
from engines.train.rollout.places import PlacesSection, draw_drives
from engines.train.rollout.vector_env import DeferredInference, Lane
from hil.drive.fast.drive import FastDrive
from hil.evaluate.baselines.registry import make_policy
from onboard.policy.contract import ACTIONS, INPUTS
from onboard.policy.encode import tensors
from onboard.values.errors import InputError, OnboardError
from onboard.values.interfaces import Policy
from onboard.values.messages import Decision, Memory, Observation, Twist
from tests.onboard.policy.test_contract import full_manifest
from tests.rigs.train_rig import depot


def lane(seed: int = 0, **changes) -> Lane:
    rules, building = depot()
    plain = replace(plain_robot(rules), places=PlacesSection(maps=("depot",), most_m=6.0, detours=0.0))
    return Lane(replace(plain.lanes(), **changes), [building], np.random.default_rng(seed))


def drive_by_expert(one: Lane, drives: int):
    """Return the requests up to the end of some drives, and how these ended."""
    requests, ended = [], []
    while len(ended) < drives:
        requests.append(one.wait())
        if requests[-1].ended is not None:
            ended.append(requests[-1].ended)
        one.answer(int(np.argmax(requests[-1].scores)))
    return requests, ended


@pytest.mark.parametrize("knows", ["map", "seen"])
def test_the_expert_arrives_in_a_lane(knows):
    requests, ended = drive_by_expert(lane(knows=knows), 3)
    assert [one.outcome.ended for one in ended] == ["stop"] * 3
    assert all(one.outcome.reached and one.outcome.contacts == 0 for one in ended)
    assert all(one.left_m < 0.35 < one.best_m for one in ended)
    ways = [request.geodesic_m for request in requests if np.isfinite(request.geodesic_m)]
    assert min(ways) < 0.2 < 1.0 < ways[0]


def test_what_a_lane_waits_with_is_the_contract():
    request = lane().wait()
    for name, values in request.tensors.items():
        assert (values.shape, values.dtype.name) == (INPUTS[name].type.shape, INPUTS[name].type.dtype)
    assert set(request.tensors) == set(INPUTS) - {"rgb", "memory_in"}
    assert request.fresh
    rho, cos, sin = request.compass
    assert rho == pytest.approx(request.tensors["goal"][0, 0], abs=0.3)
    assert np.hypot(cos, sin) == pytest.approx(1.0, abs=1e-5)


def test_tensors_are_those_of_the_runtime_to_the_last_bit():
    one = lane(3)
    for _ in range(8):
        request = one.wait()
        observation = one._inference.pending[1]
        wanted = tensors(observation, np.zeros(INPUTS["memory_in"].type.shape[::2], np.float32), full_manifest())
        for name, values in request.tensors.items():
            np.testing.assert_array_equal(values, wanted[name], strict=True)
        one.answer(int(np.argmax(request.scores)))


def test_a_gone_camera_blinds_the_student_and_not_the_expert(monkeypatch):
    seen = []
    scores = Expert.scores
    monkeypatch.setattr(Expert, "scores", lambda self, *asked: seen.append(asked[1].scan) or scores(self, *asked))
    plain = lane()._rules
    one = lane(domain=plain.domain.model_copy(update={"camera_gone": 1.0}))
    request = one.wait()
    whole = depot()[1].course.scan
    blind = request.tensors["scan"][0, 0][whole.seen] == 0.0
    assert blind.any()
    assert not blind.all()
    np.testing.assert_array_equal(seen[0].seen, whole.seen)
    np.testing.assert_array_equal(seen[0].ranges_m, whole.ranges(one._drive.robot.pose, one._drive.robot.bodies))


def test_the_memory_is_fresh_at_the_start_and_every_ten_seconds():
    one, fresh = lane(stuck_s=60.0), []
    for _ in range(65):
        request = one.wait()
        assert request.ended is None
        fresh.append(request.fresh)
        one.answer(6)  # turning on the spot
    assert [step for step, value in enumerate(fresh) if value] == [0, 30, 60]


def test_a_drive_that_is_refused_at_its_start_is_told():
    near = depot()[1].setting.config
    near = near.model_copy(update={"goal": near.goal.model_copy(update={"max_distance_m": 0.5})})
    building = replace(depot()[1], setting=replace(depot()[1].setting, config=near))
    line = r"^map depot: a drive of \d\.\d m ended before its first decision: goal refused: .* limit 0\.5 m \("
    one = Lane(lane()._rules, [building], np.random.default_rng(0))
    with pytest.raises(InputError, match=line):
        one.wait()
    # Nor does it take the place of the drive before, which came to its end.
    one = lane(max_s=1.0)
    one._turns._buildings = [building]
    with pytest.raises(InputError, match=line):
        drive_by_expert(one, 1)


def test_images_come_when_asked_for():
    assert lane().wait().image is None
    image = lane(colour=1.0).wait().image
    assert (image.shape, image.dtype) == ((144, 256, 3), np.uint8)
    assert image.std() > 0


class Recorded:
    """A policy that notes what it sees and turns."""

    name, memory_reset_s = "recorded", 10.0

    def __init__(self, policy: Policy) -> None:
        self.policy, self.seen = policy, []

    def initial_memory(self) -> Memory:
        return self.policy.initial_memory()

    def decide(self, observation: Observation, memory: Memory) -> tuple[Decision, Memory]:
        self.seen.append(observation)
        return self.policy.decide(observation, memory)

    def close(self) -> None:
        self.policy.close()


def test_a_held_drive_is_the_same_drive():
    """The same decisions, made outside, give the same outcome to the last bit."""
    rules, building = depot()
    episode, _ = draw_drives(rules.places, building, np.random.default_rng(5))[0]
    setting = replace(building.setting, limits=True)
    plain = Recorded(make_policy("reactive", setting, episode))
    expected = FastDrive(setting, building.course, episode, plain, 7, 60.0).run()

    held, judge = DeferredInference(), make_policy("reactive", setting, episode)
    drive = FastDrive(setting, building.course, episode, judge, 7, 60.0, held)
    memory, seen = judge.initial_memory(), []
    drive.begin()
    while not drive.ended():
        drive.advance()
        if held.pending is not None:
            seen.append(held.pending[1])
            decision, memory = judge.decide(held.pending[1], memory)
            held.answer(decision.action)
    outcome = drive.outcome()
    np.testing.assert_array_equal(outcome.trace, expected.trace)
    assert [one.odometry for one in seen] == [one.odometry for one in plain.seen]
    assert len(seen) > 5


def test_an_answer_without_a_question_is_refused():
    with pytest.raises(OnboardError, match="nothing was asked"):
        DeferredInference().answer(0)


def test_the_expert_waits_for_news_of_its_place_before_it_stops():
    """Turning on the spot, and no longer than the longest time between two fixes."""
    turn = ACTIONS.index(Twist(0.0, 1.0))
    best = {}
    for news_s in (None, 1.5):
        requests, ended = drive_by_expert(lane(news_s=news_s), 3)
        assert all(one.outcome.reached for one in ended)
        best[news_s] = [int(np.argmax(request.scores)) for request in requests if request.geodesic_m < 0.1]
    assert turn not in best[None]
    assert 1 <= best[1.5].count(turn) <= 3 * 12


def test_who_knows_only_what_it_has_seen_forgets_with_the_student(monkeypatch):
    made = []

    class Told(Expert):
        def __init__(self, *args) -> None:
            super().__init__(*args)
            made.append((args, []))

        def scores(self, *asked):
            made[-1][1].append(asked)
            return super().scores(*asked)

    monkeypatch.setattr(vector_env, "Expert", Told)
    drive_by_expert(lane(knows="seen"), 1)
    (setting, episode, _, news_s), asked = made[0]

    def answer(knows, *questions):
        expert = Expert(setting, episode, knows, news_s)
        return [expert.scores(*question) for question in questions][-1]

    *past, (observation, truth, _) = asked[:12]
    for knows in ("seen", "map"):
        remembers, forgets, knew_nothing = (
            answer(knows, *past, (observation, truth, False)),
            answer(knows, *past, (observation, truth, True)),
            answer(knows, (observation, truth, True)),
        )
        np.testing.assert_array_equal(forgets, knew_nothing if knows == "seen" else remembers)
        assert not np.array_equal(remembers, knew_nothing)
