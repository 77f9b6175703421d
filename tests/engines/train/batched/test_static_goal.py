"""A static goal: it stays where it was at the start, wherever the robot is, and the manifest says so."""

from __future__ import annotations

import torch

from engines.train.batched.policy import STATE, manifest_of
from engines.train.batched.training import with_static_goal


def test_the_goal_stays_where_it_was_at_the_start() -> None:
    generator = torch.Generator().manual_seed(1)
    goal, (x, y, yaw) = torch.tensor([3.0, -4.0]), torch.randn(3, 50, generator=generator)
    away_x, away_y = goal[0] - x, goal[1] - y
    ahead, aside = yaw.cos() * away_x + yaw.sin() * away_y, yaw.cos() * away_y - yaw.sin() * away_x
    distance = torch.hypot(ahead, aside)
    state = torch.randn(50, STATE, generator=generator)
    state[:, :7] = torch.stack([distance, ahead / distance, aside / distance, x, y, yaw.cos(), yaw.sin()], 1)
    static = with_static_goal(state)
    torch.testing.assert_close(static[:, :3], torch.tensor([5.0, 0.6, -0.8]).expand(50, 3), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(static[:, 3:], state[:, 3:])


def test_at_the_start_a_goal_of_no_distance_is_a_number() -> None:
    assert torch.isfinite(with_static_goal(torch.zeros(2, STATE))).all()


def test_the_runtime_gives_the_goal_in_the_frame_of_the_training() -> None:
    for frame in ("robot", "start"):
        parts = manifest_of("0" * 64, "x", {}, frame).model_dump()["inputs"][1]["parts"]
        assert parts[0]["frame"] == frame
