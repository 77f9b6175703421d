"""`agents.toml`: the agents of the ablations, as changes of one recipe, and the conditions to drive them in."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import Field, ValidationError, field_validator

from engines.train.config import TrainConfig, load_train_config, rules_of
from engines.train.rollout.collector import plain_robot
from hil.drive.conditions import load_conditions
from hil.drive.episode_sets import SETS
from hil.evaluate.episode import RobotFiles, robot_files
from hil.evaluate.episode_selection import find_sets
from hil.physics.collision_world import Body
from onboard.config.config import load_config
from onboard.config.plant_model import load_plant
from onboard.config.toml_file import Section, read_toml, validation_lines
from onboard.values.errors import ConfigError, InputError

AGENTS_FILE = Path(__file__).parent / "agents.toml"
OWN = "own"
"""Pseudo condition: the agent's training domain (the paper's Table 2)."""
PLAIN, NO_RESET, NO_FIXES = "paper", "no_reset", "no_localization"
"""Conditions of training domains: memory reset every 10 s, no reset, no fixes."""
ROUNDING = 1e-6
NEVER = "never"
"""Value of `RESET` for no memory reset."""
FILES = ("robot.plant", "robot.config")
RESET = "driving.memory_reset_s"

NAME = r"[A-Za-z0-9_-]+"
"""Pattern of an agent's name, also the name of its folder."""

Figures = Annotated[list[float], Field(min_length=3, max_length=3)]


class AgentSection(Section):
    """One agent.

    what:       description for the table
    changes:    of the recipe, by "table.key"
    conditions: rows of hil/drive/conditions.toml instead of the common ones; the first is the paper's
    paper, paper_own: the paper's SR, SPL, SCT [%], with the motion model and in the agent's training domain
    paper_office: the paper's SR [%] with the motion model in its building Office/20
    """

    what: Annotated[str, Field(min_length=1)]
    changes: dict[str, Any] = Field(default_factory=dict)
    conditions: list[str] | None = None
    paper: Figures | None = None
    paper_own: Figures | None = None
    paper_office: Annotated[float, Field(ge=0.0, le=100.0)] | None = None


class AgentsFile(Section):
    """The file of agents.

    recipe:     the training's file, relative to this file's folder
    set, maps, episodes, seed: as of `onboard-hil evaluate`, for all agents; no maps: all maps of the set
    conditions: of agents without their own conditions
    former:     description of each agent that is trained no more, for a report of its results
    """

    recipe: Path
    set: str
    maps: list[str] = Field(default_factory=list)
    episodes: Annotated[int, Field(ge=1)] | None = None
    conditions: list[str]
    seed: Annotated[int, Field(ge=0)] = 1
    former: dict[str, str] = Field(default_factory=dict)
    agents: Annotated[dict[str, AgentSection], Field(min_length=1)]

    @field_validator("agents")
    @classmethod
    def _named(cls, agents: dict[str, AgentSection]) -> dict[str, AgentSection]:
        for name in agents:
            if re.fullmatch(NAME, name) is None:
                raise ValueError(f"the name of an agent must be letters, digits, _ and -, found {name!r}")
        return agents

    @field_validator("set")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in SETS:
            raise ValueError(f"must be one of {', '.join(SETS)}, found {name!r}")
        return name


class Place(NamedTuple):
    """A condition in which an agent is driven.

    where: name of the condition, or `OWN`; file: name of the result
    """

    where: str
    file: str


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent with its training and its conditions."""

    name: str
    section: AgentSection
    config: TrainConfig
    conditions: tuple[str, ...]

    @property
    def sees_colour(self) -> bool:
        """Return whether the agent needs a trained colour encoder."""
        return self.config.network.rgb

    @property
    def is_randomised(self) -> bool:
        """Return whether the robots of its training differ, so that no condition equals its domain.

        A fixed delay, no fixes at all, and drives without limits do not count.
        """
        domain, plain = self.config.domain, plain_robot(rules_of(self.config)).domain
        same = {"limits", *(["no_localization"] if domain.no_localization == 1.0 else [])}
        same |= {"delay_ticks"} if domain.delay_ticks[0] == domain.delay_ticks[1] else set()
        return domain.model_dump(exclude=same) != plain.model_dump(exclude=same)

    @property
    def delay_ticks(self) -> int:
        """Return the runtime's sense-to-act delay in its training; of a range, the middle."""
        least, most = self.config.domain.delay_ticks
        return (least + most) // 2

    @property
    def own_condition(self) -> str:
        """Return the condition of its training domain, without plant and delay."""
        if self.config.domain.no_localization == 1.0:
            return NO_FIXES
        return PLAIN if self.config.driving.memory_reset_s is not None else NO_RESET

    def places(self) -> list[Place]:
        """Return its conditions, and its training domain if no condition equals it."""
        names = [*self.conditions, *([] if self.own_robot() is None else [OWN])]
        return [Place(name, f"{name}.json") for name in names]

    def quoted_in(self, place: Place) -> list[float] | None:
        """Return the paper's figures for this place: of the training domain, or with the motion model."""
        if place.where == OWN:
            return self.section.paper_own
        return self.section.paper if place.where == self.conditions[0] else None

    def quoted_of_office(self, place: Place) -> float | None:
        """Return the paper's SR in Office/20 with the motion model."""
        return self.section.paper_office if place.where == self.conditions[0] else None

    def delay_in(self, place: Place) -> str:
        """Return the ticks of 1/30 s from an observation to the base's reaction, as text."""
        if place.where != OWN:
            robot, given = self.robot(), load_conditions()[place.where].delay_ticks
            return str((given or robot.config.rates.delay_ticks) + _wire_ticks(robot))
        wire = _wire_ticks(self.own_robot() or self.robot())
        least, most = (ticks + wire for ticks in self.config.domain.delay_ticks)
        return str(least) if least == most else f"{least} to {most}"

    def robot(self) -> RobotFiles:
        """Return the robot on which all agents are compared."""
        return robot_files(load_config(self.config.robot.config))

    def own_robot(self) -> RobotFiles | None:
        """Return the robot of its training, None if it equals `robot`.

        A randomised training gives the robot around which it draws.
        """
        robot = self.robot()
        same_delay = robot.config.rates.delay_ticks == self.delay_ticks
        if self.config.robot.plant is None and same_delay and not self.is_randomised:
            return None
        rates = robot.config.rates.model_copy(update={"delay_ticks": self.delay_ticks})
        plant = robot.plant if self.config.robot.plant is None else load_plant(self.config.robot.plant)
        return replace(robot, config=robot.config.model_copy(update={"rates": rates}), plant=plant)


@dataclass(frozen=True, slots=True)
class Agents:
    """The agents of a file by name, and their common episodes."""

    agents: Mapping[str, Agent]
    set_name: str
    maps: tuple[str, ...]
    episodes: int | None
    seed: int

    def only(self, names: Sequence[str]) -> list[Agent]:
        """Return the named agents, or all without names, in the order of the file. Raises InputError."""
        for name in names:
            if name not in self.agents:
                raise InputError(f"--only {name}: must be one of {', '.join(self.agents)}")
        return [agent for name, agent in self.agents.items() if not names or name in names]


def load_agents(path: Path = AGENTS_FILE) -> Agents:
    """Return the agents of a file, with trainings, conditions and maps checked. Raises ConfigError."""
    try:
        file = AgentsFile.model_validate(read_toml(path))
    except ValidationError as error:
        raise ConfigError(validation_lines(path, error)) from error
    agents = {name: _agent(path, file, name, section) for name, section in file.agents.items()}
    _check_sets(path, file, {agent.robot().body for agent in agents.values()})
    return Agents(agents, file.set, tuple(file.maps), file.episodes, file.seed)


def _check_sets(path: Path, file: AgentsFile, bodies: set[Body]) -> None:
    """Raise ConfigError for maps that are not in the set, or that do not fit a robot."""
    for body in bodies:
        try:
            find_sets(file.maps, file.episodes, file.seed, body, file.set)
        except InputError as error:
            raise ConfigError(f"{path}: {str(error).removeprefix('--')}") from error


def _wire_ticks(robot: RobotFiles) -> int:
    """Return the command delay of the base in control ticks."""
    return math.ceil(robot.plant.base.command_delay_s * robot.config.rates.control_hz - ROUNDING)


def _agent(path: Path, file: AgentsFile, name: str, section: AgentSection) -> Agent:
    conditions = file.conditions if section.conditions is None else section.conditions
    for condition in conditions:
        if condition not in load_conditions():
            raise ConfigError(f"{path}: {name}: conditions: there is no {condition} in hil/drive/conditions.toml")
    changes = {key: _changed(path, key, value) for key, value in section.changes.items()}
    try:
        config = load_train_config(path.parent / file.recipe, {**changes, "name": f"ablation-{name}"})
    except ConfigError as error:
        raise ConfigError(f"{path}: {name}: {error}") from error
    if config.domain.no_localization == 1.0 and config.driving.memory_reset_s is None:
        raise ConfigError(
            f"{path}: {name}: at least one condition must be its own domain, without fixes and without resets of the "
            "memory"
        )
    return Agent(name, section, config, tuple(conditions))


def _changed(path: Path, key: str, value: Any) -> Any:
    """Return a changed value in the form of the training's configuration."""
    if key in FILES:
        return path.parent / str(value)
    return None if key == RESET and value == NEVER else value
