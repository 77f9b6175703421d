"""The steps of an installation: a pure function of the machine's state and the request. `--dry-run` shows them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from onboard.commands.install.layout import Layout, Version, pointed_at
from onboard.commands.install.unit_files import in_place, on_trial
from onboard.commands.install.wheel import older
from onboard.values.errors import InputError


class Step(Enum):
    """All steps in their order. The values are the lines that the operator reads."""

    CLEAN = "remove what an interrupted installation left behind"
    BUILD = "build {new} next to the other versions"
    CONFIGURE = "write the default robot's configuration, since there is none"
    CHECK = "check the configuration with {new}"
    RETURN = "make {old} the active version again, because it is still running"
    ACCOUNT = "create the service's user and folders"
    COMPILE = "compile the kernels of {new} for the service, which takes a minute the first time"
    TRY = "restart the service with {new} and wait until it is READY; roll back to {old} if it is not"
    SWITCH = "switch `current` to {new}; the previous version is {before}"
    START = "start the service with {new} and wait until it is READY; stop it if it is not"
    ENABLE = "start the service at every boot"
    PRUNE = "delete versions that are neither active, nor the previous one, nor running"


@dataclass(frozen=True, slots=True)
class InstalledState:
    """The machine's state before an installation.

    versions:    complete versions, by name
    current:     active version, None without one
    previous:    version before it
    left:        leftovers of an interrupted installation: incomplete versions, overrides in /run
    placed:      whether the system's folders hold the unchanged files of the active version
    configured:  whether there is a configuration
    runs:        whether the service is READY
    enabled:     whether the service starts at boot
    running:     version of the service's process, READY or not; None without a process or if unknown
    tried:       whether an interrupted installation left `running` on trial
    """

    versions: dict[str, Version]
    current: str | None
    previous: str | None
    left: tuple[str, ...]
    placed: bool
    configured: bool
    runs: bool
    enabled: bool
    running: str | None = None
    tried: bool = False

    @property
    def proven(self) -> str | None:
        """Return the version to go back to: the running version unless it is on trial, else the active version.

        The running version need not be READY: it may wait for its base. A version that was activated without a
        start was never tried.
        """
        there = not self.tried and self.running in self.versions
        return self.running if there else self.current


@dataclass(frozen=True, slots=True)
class InstallRequest:
    """The requested version (release, name) and options."""

    release: str
    name: str
    downgrade: bool = False
    start: bool = True
    compiles: bool = True


def find(layout: Layout, *, runs: bool, enabled: bool, running: str | None = None) -> InstalledState:
    """Return the machine's state. `runs` and `enabled` come from systemd, `running` from the process."""
    versions = layout.complete()
    current, previous = (
        name if name in versions else None for name in (pointed_at(layout.current), pointed_at(layout.previous))
    )
    placed = current is not None and in_place(layout, layout.folder(current))
    trial = on_trial(layout)
    left = (*layout.interrupted(), *(str(path) for path in trial))
    configured = layout.configuration_file.exists()
    return InstalledState(versions, current, previous, left, placed, configured, runs, enabled, running, bool(trial))


def plan(order: InstallRequest, found: InstalledState) -> tuple[Step, ...]:
    """Return the steps; none if nothing is to do. Raises InputError for a downgrade that was not requested."""
    old = found.versions.get(found.current or "")
    if old is not None and not order.downgrade and older(order.release, old.release):
        raise InputError(f"{order.name} is older than the active version {old.name}: --downgrade installs it anyway")
    new = order.name != found.current
    start = order.start and (bool(found.left) or not found.runs or found.running != order.name)
    tried = start and found.proven not in (None, order.name)
    back = tried and found.proven != found.current
    wanted = {
        Step.CLEAN: bool(found.left),
        Step.BUILD: order.name not in found.versions,
        Step.CONFIGURE: not found.configured,
        Step.CHECK: new or start or not found.placed,
        Step.RETURN: back,
        Step.ACCOUNT: new or back or not found.placed,
        Step.COMPILE: order.compiles and (new or start),
        Step.TRY: tried,
        Step.SWITCH: new or back or not found.placed,
        Step.START: start and not tried,
        Step.ENABLE: order.start and not found.enabled,
        Step.PRUNE: bool(surplus(order.name, found)),
    }
    return tuple(step for step in Step if wanted[step])


def before(name: str, found: InstalledState) -> str | None:
    """Return the version that becomes `previous` once `name` is active; preferably one that ran."""
    return next((one for one in (found.proven, found.current, found.previous) if one not in (None, name)), None)


def surplus(name: str, found: InstalledState) -> list[str]:
    """Return the versions to delete once `name` is active; never the running version."""
    return sorted(found.versions.keys() - {name, before(name, found), found.running})


def line(step: Step, order: InstallRequest, found: InstalledState) -> str:
    """Return the operator's line for a step."""
    names = {"new": order.name, "old": found.proven, "before": before(order.name, found)}
    return step.value.format(**{key: name or "none" for key, name in names.items()})


def outcome(order: InstallRequest, found: InstalledState, *, changed: bool) -> str:
    """Return the operator's last line. changed: whether there was anything to do."""
    if order.start:
        return f"{order.name} is active" if changed else f"{order.name} is active and READY: nothing to do"
    if found.running == order.name:
        return f"{order.name} is active and running"
    runs = found.running or ("another one" if found.runs else "")
    until = f"{runs} runs until then" if runs else "nothing runs"
    return f"{order.name} becomes active at the next start of the service; {until}"
