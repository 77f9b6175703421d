"""Does the steps of a plan, and goes back when the new version does not come up."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from onboard.errors import InputError, OnboardError
from onboard.install.build import build
from onboard.install.layout import Layout, point, remove_version
from onboard.install.plan import Found, Order, Step, line, surplus
from onboard.install.service import Services
from onboard.install.tool import run_tool
from onboard.install.units import end_trial, files_of, foreign, on_trial, place, prepare, set_trial
from onboard.install.wheel import Choice, Wheel

DEFAULT_ROBOT_FILES = "lib/python*/site-packages/onboard/robots/default/*.toml"
CHECK_S = 120.0
"""For a new version to read the configuration, which takes seconds."""
FOLDER_MODE, FILE_MODE = 0o755, 0o644


class NotReadyError(OnboardError):
    """The new version did not become READY; the message says why, and what runs now."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long the new version may take to be READY, and how long it has to stay so [s]."""

    ready_s: float
    settle_s: float


@dataclass(frozen=True, slots=True)
class Installer:
    """One installation. say: shows a line to the person."""

    layout: Layout
    services: Services
    order: Order
    found: Found
    wheel: Wheel | None
    choice: Choice
    patience: Patience
    say: Callable[[str], None]

    def do(self, steps: tuple[Step, ...]) -> None:
        """Do the steps. Raises InputError, the service as it was; or NotReadyError, the old version in force again."""
        for step in steps:
            self.say(line(step, self.order, self.found))
            try:
                self._doer(step)()
            except OSError as error:
                raise InputError(f"{error.filename or self.layout.home}: {error.strerror}") from error

    def _doer(self, step: Step) -> Callable[[], None]:
        return {
            Step.CLEAN: self._clean,
            Step.BUILD: self._build,
            Step.CONFIGURE: self._configure,
            Step.CHECK: self._check,
            Step.ACCOUNT: self._account,
            Step.TRY: self._try,
            Step.SWITCH: self._switch,
            Step.START: self._start,
            Step.ENABLE: self._enable,
            Step.PRUNE: self._prune,
        }[step]

    @property
    def _folder(self) -> Path:
        return self.layout.folder(self.order.name)

    def _clean(self) -> None:
        for name in self.layout.interrupted():
            remove_version(self.layout, name)
        end_trial(self.layout)
        self.services.reload()

    def _build(self) -> None:
        assert self.wheel is not None
        build(self.layout, self.wheel, self.choice)

    def _configure(self) -> None:
        """Copy the default robot as the new version knows it; what is there stays."""
        self.layout.configuration.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        for file in sorted(self._folder.glob(DEFAULT_ROBOT_FILES)):
            target = self.layout.configuration / file.name
            if not target.exists():
                shutil.copyfile(file, target)
                target.chmod(FILE_MODE)

    def _check(self) -> None:
        """See what would be in the way, and let the new version read the configuration, before anything is touched."""
        taken = foreign(self.layout, self._folder)
        if taken:
            raise InputError(f"{taken[0]}: is not ours, and would be stronger or in the way: move it away first")
        command = [str(self._folder / "bin" / "onboard"), "check-config", "--config"]
        complaint = f"{self.order.name} refuses the configuration, nothing was changed"
        run_tool([*command, str(self.layout.configuration_file)], complaint, CHECK_S)

    def _account(self) -> None:
        self.services.apply(files_of(self._folder))

    def _try(self) -> None:
        """Restart with the new version by an override that goes with the next boot. Back to the old one if it fails."""
        with contextlib.ExitStack() as undo:
            undo.callback(end_trial, self.layout)
            set_trial(self.layout, self._folder)
            undo.callback(self._back)
            self.services.reload()
            trouble = self.services.start(self.patience.ready_s, self.patience.settle_s)
            if not trouble:
                undo.pop_all()
                return
        again = "runs again" if self.services.look().runs else "is in force again, and stopped as before"
        raise NotReadyError(f"{self.order.name}: {trouble}; {self.found.current} {again}")

    def _back(self) -> None:
        """Put the old version in force again, and in the state that it was in."""
        self.say(f"going back to {self.found.current}")
        end_trial(self.layout)
        self.services.reload()
        if not self.found.runs:
            self.services.stop()
            return
        trouble = self.services.start(self.patience.ready_s, 0.0)
        if trouble:
            raise NotReadyError(f"{self.order.name} did not come up, and {self.found.current} neither: {trouble}")

    def _switch(self) -> None:
        """Put the version in force for good: one rename, then its files for the system, then what systemd knows.

        What takes room on the disk is written before the rename; where there is none, the old version runs again.
        """
        shown = self.layout.seen(self._folder)
        with contextlib.ExitStack() as undo:
            if on_trial(self.layout):
                undo.callback(self._back)
            prepared = prepare(self.layout, self._folder)
            if self.found.current is not None and self.found.current != self.order.name:
                point(self.layout.previous, shown.with_name(self.found.current))
            point(self.layout.current, shown)
            undo.pop_all()
        place(self.layout, prepared)
        end_trial(self.layout)
        self.services.reload()

    def _enable(self) -> None:
        self.services.enable(True)

    def _start(self) -> None:
        with contextlib.ExitStack() as undo:
            undo.callback(self.services.stop)
            trouble = self.services.start(self.patience.ready_s, self.patience.settle_s)
            if not trouble:
                undo.pop_all()
                return
        raise NotReadyError(
            f"{self.order.name}: {trouble}; it is stopped, and there is none to go back to."
            " `journalctl -u onboard -n 50` says more; `onboard install` tries again"
        )

    def _prune(self) -> None:
        for name in surplus(self.order.name, self.found):
            remove_version(self.layout, name)
