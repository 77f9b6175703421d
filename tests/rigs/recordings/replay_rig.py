"""An eventful drive, recorded, for replaying it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hil.drive.episodes import choose
from hil.drive.robot import Senses, SimulatedRobot
from hil.maps.materials import draw_appearance
from hil.physics.collision_world import body_of
from hil.recordings.locate import takes_of
from hil.replay.recorded_policy import Policies
from hil.replay.replay import Replayer, ReplayOptions
from hil.replay.tick_selection import WHOLE, Span
from onboard.assembly.policies import policy_maker
from onboard.config.config import PolicySection
from onboard.policy.contract import ACTIONS
from onboard.recording.recorder import RecordQueue
from onboard.state import TickRecord
from onboard.values.clock import NS_PER_S
from onboard.values.interfaces import Policy
from onboard.values.messages import Inputs, Pose, Twist
from tests.rigs.in_process import InProcess
from tests.rigs.runtime_bench import FORWARD, LEFT, MOUNTS, PLANT, Bench, Puppet, Tape, plain_config, with_noise

TURNS = (LEFT, LEFT, ACTIONS.index(Twist(0.3, 1.0)), FORWARD)


def short_drive(folder: Path, age_ms: int = 0) -> Path:
    """Record two seconds with the policy that the configuration names, whole states among them; return the file.

    age_ms: how much older the images of each camera are than those of the one before it
    """
    tape = Tape(folder, plain_config())
    made = Bench(policy_maker(plain_config(), PLANT)(), listeners=[tape])
    rng = np.random.default_rng(1)

    def seen(inputs: Inputs) -> Inputs:
        noisy = with_noise(inputs, rng, 2000, 9000)
        aged = {
            name: replace(frame, stamp_ns=frame.stamp_ns - number * age_ms * NS_PER_S // 1000)
            for number, (name, frame) in enumerate(noisy.depth.items())
        }
        return replace(noisy, depth=aged)

    made.alter = seen
    made.ask()
    made.ticks(25)
    made.fix(Pose(1.0, 2.0, 0.6))
    made.ticks(20)
    made.e_stop = True
    made.ticks(3)
    made.e_stop = False
    made.tick()
    made.ask(x_m=2.0)
    made.ticks(14)
    return tape.close()


def simulated_drive(folder: Path, model: Path, longest_s: float) -> Path:
    """Record a drive through a furnished floor with a model on one thread, colour images among it; return the file."""
    config = plain_config()
    policy = config.policy.model_copy(update={"model": str(model), "engine": "onnxruntime"})
    config = config.model_copy(update={"policy": policy})
    body = body_of(config.robot)
    scenario = choose("gdc1", 1, 3, body)
    senses, look = Senses(seed=3, depth_noise=True), draw_appearance(4)
    robot = SimulatedRobot(scenario.world, PLANT, body, MOUNTS, scenario.episode.start, senses, look=look)
    tape = Tape(folder, config, queue=RecordQueue(100_000, 1e9))
    with contextlib.closing(policy_maker(config, PLANT)()) as deciding:
        whole = InProcess(config, MOUNTS, PLANT, robot, deciding, [tape])
        whole.drive_to(Pose(*scenario.episode.goal_xy_m, 0.0), limit_s=longest_s)
    return tape.close()


def opinion_of(file: Path, policy: Policy, span: Span = WHOLE) -> Any:
    """Return the answer of a replay that compares a file with the decisions of another policy."""
    (take,) = takes_of([str(file)])
    (answer,) = Replayer(ReplayOptions(span, policy=policy.name), Policies(policy))(take).answers
    return answer


def puppet(actions: Sequence[int] = TURNS) -> Puppet:
    """Return a policy that does another thing every second."""
    return Puppet(lambda seen: actions[seen.stamp_ns // NS_PER_S % len(actions)], reset_s=5.0)


def recorded(
    folder: Path,
    lose: Callable[[int], bool] = lambda slot: False,
    record: dict[str, Any] | None = None,
    policy: Policy | None = None,
    policy_section: PolicySection | None = None,
    **bench: Any,
) -> tuple[list[Path], list[TickRecord]]:
    """Record an eventful drive: walls, a fix, late decisions, an operator, a blocked loop, an e-stop, another goal.

    policy_section: what the session says of the policy
    """
    sections = {name: bench.pop(name) for name in ("scan", "limits_scan") if name in bench}
    config = Bench(**sections).config.model_copy(update={"policy": policy_section or PolicySection(model="reactive")})
    tape = Tape(folder, config, lose, **(record or {}))
    made = Bench(policy or puppet(), takes_ms={6: 200, 9: 90}, listeners=[tape], **bench, **sections)
    rng = np.random.default_rng(1)

    def noisy(inputs: Inputs) -> Inputs:
        seen = with_noise(inputs, rng, 2000, 9000)
        return replace(seen, speed_limit_mps=0.4 if made.clock.now_ns() > 3e9 else None)

    made.alter = noisy
    made.ticks(5)
    made.ask()
    made.ticks(70)
    made.fix(Pose(1.0, 2.0, 0.6))
    made.obstacle = True
    made.skip(3)
    made.ticks(40)
    made.obstacle = False
    made.operate(Twist(0.1, 0.2))
    made.ticks(40)
    made.ask(frame="mars")
    del made.images["rear"]
    made.ticks(60)
    made.e_stop = True
    made.ticks(10)
    made.e_stop = False
    made.tick()
    made.ask(x_m=2.0)
    made.ticks(199)
    tape.close()
    return sorted(folder.glob("*.mcap")), tape.ticks
