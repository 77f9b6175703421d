"""What an installation will do: a pure function of what is there and what was asked for. `--dry-run` shows it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from onboard.errors import InputError
from onboard.install.layout import Layout, Version, pointed_at
from onboard.install.units import in_place, on_trial
from onboard.install.wheel import older


class Step(Enum):
    """What can be done, in the order in which it is done. The values are what a person reads."""

    CLEAN = "take away what an interrupted installation left"
    BUILD = "build {new} beside the others"
    CONFIGURE = "write the default robot's configuration, since there is none"
    CHECK = "check the configuration with {new}"
    ACCOUNT = "make the service's user and folders"
    TRY = "restart the service with {new} and wait until it is READY; back to {old} when it is not"
    SWITCH = "switch `current` from {old} to {new}"
    START = "start the service with {new} and wait until it is READY; stop it when it is not"
    ENABLE = "start the service with the machine"
    PRUNE = "delete versions that are neither in force nor the one before"


@dataclass(frozen=True, slots=True)
class Found:
    """What is there.

    versions:    the whole ones, by name
    current:     the one in force, None without
    previous:    the one before it
    left:        what an interrupted installation left: half a version, an override in /run
    placed:      whether the system's folders hold the files of the version in force, as they are written there
    configured:  whether there is a configuration
    runs:        whether the service is READY
    enabled:     whether it starts with the machine
    """

    versions: dict[str, Version]
    current: str | None
    previous: str | None
    left: tuple[str, ...]
    placed: bool
    configured: bool
    runs: bool
    enabled: bool


@dataclass(frozen=True, slots=True)
class Order:
    """What was asked for. release, name: of the version wanted."""

    release: str
    name: str
    downgrade: bool = False
    start: bool = True


def find(layout: Layout, *, runs: bool, enabled: bool) -> Found:
    """Return what is there. `runs` and `enabled` are systemd's word."""
    versions = layout.complete()
    current, previous = (
        name if name in versions else None for name in (pointed_at(layout.current), pointed_at(layout.previous))
    )
    placed = current is not None and in_place(layout, layout.folder(current))
    left = (*layout.interrupted(), *(str(path) for path in on_trial(layout)))
    configured = layout.configuration_file.exists()
    return Found(versions, current, previous, left, placed, configured, runs, enabled)


def plan(order: Order, found: Found) -> tuple[Step, ...]:
    """Return the steps, none when all is as asked for. Raises InputError for a downgrade that was not asked for."""
    old = found.versions.get(found.current or "")
    if old is not None and not order.downgrade and older(order.release, old.release):
        raise InputError(f"{order.name} is older than {old.name}, which is in force: --downgrade takes it all the same")
    new = order.name != found.current
    start = order.start and (new or bool(found.left) or not found.runs)
    wanted = {
        Step.CLEAN: bool(found.left),
        Step.BUILD: order.name not in found.versions,
        Step.CONFIGURE: not found.configured,
        Step.CHECK: new or start or not found.placed,
        Step.ACCOUNT: new or not found.placed,
        Step.TRY: start and new and old is not None,
        Step.SWITCH: new or not found.placed,
        Step.START: start and not (new and old is not None),
        Step.ENABLE: order.start and not found.enabled,
        Step.PRUNE: bool(surplus(order.name, found)),
    }
    return tuple(step for step in Step if wanted[step])


def surplus(name: str, found: Found) -> list[str]:
    """Return the versions to delete once `name` is in force."""
    before = found.previous if name == found.current else found.current
    return sorted(found.versions.keys() - {name, before})


def line(step: Step, order: Order, found: Found) -> str:
    """Return a step as a person reads it."""
    return step.value.format(new=order.name, old=found.current or "none")
