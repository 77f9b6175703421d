"""Carries out the steps of a plan, and rolls back if the new version does not become READY."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from onboard.commands.install.layout import Layout, point, remove_version
from onboard.commands.install.plan import InstalledState, InstallRequest, Step, before, line, plan, surplus
from onboard.commands.install.run_program import run_tool, signals_ignored
from onboard.commands.install.systemctl import Status, Systemd
from onboard.commands.install.unit_files import end_trial, files_of, foreign, place, prepare, set_trial
from onboard.commands.install.venv import build
from onboard.commands.install.wheel import Choice, Wheel
from onboard.values.errors import InputError, OnboardError

DEFAULT_ROBOT_FILES = "lib/python*/site-packages/onboard/**/robots/default/*.toml"
CHECK_S = 120.0
"""Timeout for the new version to read the configuration, which takes seconds."""
NUMBA = "numba"
"""Folder of the kernels in the service's cache (`NUMBA_CACHE_DIR` of the unit)."""
COMPILE_S = 900.0
"""Timeout for the compilation, at the lowest priority next to a robot that drives."""
UNPLUGGED = "warning: odometry.serial_port: "
"""Prefix of the line by which `check-config` reports a missing base."""
FOLDER_MODE, FILE_MODE = 0o755, 0o644


class NotReadyError(OnboardError):
    """The new version did not become READY; the message says why, and what runs now."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long the new version may take until READY, and how long it has to stay READY [s]."""

    ready_s: float
    settle_s: float


@dataclass(frozen=True, slots=True)
class Installer:
    """One installation. say: shows a line to the operator; never fails."""

    layout: Layout
    services: Systemd
    order: InstallRequest
    found: InstalledState
    wheel: Wheel | None
    choice: Choice
    timeouts: Timeouts
    say: Callable[[str], None]

    def do(self, steps: tuple[Step, ...]) -> None:
        """Carry out the steps.

        Raises InputError: the service is unchanged; NotReadyError: the old version is active again. After any other
        error, as EndedError, the old version is active again unless the switch was done.
        """
        with contextlib.ExitStack() as trial:
            for step in steps:
                self.say(line(step, self.order, self.found))
                try:
                    self._doer(step, trial)()
                except OSError as error:
                    raise InputError(f"{error.filename or self.layout.home}: {error.strerror}") from error

    def _doer(self, step: Step, trial: contextlib.ExitStack) -> Callable[[], None]:
        """Return the method of a step. trial: callbacks that roll back a trial if a step fails."""
        doers: dict[Step, Callable[[], None]] = {
            Step.CLEAN: self._clean,
            Step.BUILD: self._build,
            Step.CONFIGURE: self._configure,
            Step.CHECK: self._check,
            Step.RETURN: self._return,
            Step.ACCOUNT: self._account,
            Step.COMPILE: self._compile,
            Step.TRY: partial(self._try, trial),
            Step.SWITCH: partial(self._switch, trial),
            Step.START: self._start,
            Step.ENABLE: self._enable,
            Step.PRUNE: self._prune,
        }
        return doers[step]

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
        """Copy the default robot of the new version; existing files stay."""
        self.layout.configuration.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        for file in sorted(self._folder.glob(DEFAULT_ROBOT_FILES)):
            target = self.layout.configuration / file.name
            if not target.exists():
                shutil.copyfile(file, target)
                target.chmod(FILE_MODE)

    def _check(self) -> None:
        """Look for foreign files, and let the new version check the configuration, before anything is changed.

        Refuses to start without the base: the start would wait for it, and a good version would be rolled back. For the
        first version this is only a warning, because its own device rules may create the port's name.
        """
        taken = foreign(self.layout, self._folder)
        if taken:
            raise InputError(
                f"{taken[0]}: was not written by `onboard install` and overrides or blocks our file: move it, then "
                "run this again"
            )
        command = [str(self._folder / "bin" / "onboard"), "check-config", "--config"]
        complaint = f"{self.order.name} rejects the configuration; nothing was changed"
        lines = run_tool([*command, str(self.layout.configuration_file)], complaint, CHECK_S).splitlines()
        steps = plan(self.order, self.found)
        waits = Step.TRY in steps or (Step.START in steps and self.found.placed)
        for words in (one for one in lines if one.startswith(UNPLUGGED)):
            if waits:
                missing = words.removeprefix("warning: ")
                raise InputError(f"{missing} Nothing was changed: plug it in and switch it on, or use --no-start")
            self.say(words)

    def _return(self) -> None:
        """Activate the running version again, so that a rollback and a power cut lead to it."""
        assert self.found.proven is not None
        folder = self.layout.folder(self.found.proven)
        with signals_ignored():
            prepared = prepare(self.layout, folder)
            if self.found.previous == self.found.proven:
                self.layout.previous.unlink(missing_ok=True)
            point(self.layout.current, self.layout.seen(folder))
            place(self.layout, prepared)
            self.services.reload()

    def _account(self) -> None:
        self.services.apply(files_of(self._folder))

    def _compile(self) -> None:
        """Compile into the service's cache, at the lowest priority: a version before may be driving.

        A failure is only a warning: the first start of the service then compiles, as that of an older version does.
        """
        cache, command = self.layout.cache / NUMBA, [str(self._folder / "bin" / "onboard"), "compile", "--config"]
        nice = ["nice", "-n", "19", "env", f"NUMBA_CACHE_DIR={cache}", f"HOME={self.layout.state}"]
        try:
            run_tool([*nice, *command, str(self.layout.configuration_file)], "not compiled", COMPILE_S)
        except InputError as error:
            self.say(f"warning: {error}; the first start of the service compiles")
        if cache.exists():
            owner = self.layout.cache.stat()
            for path in (cache, *cache.rglob("*")):
                os.chown(path, owner.st_uid, owner.st_gid)

    def _try(self, trial: contextlib.ExitStack) -> None:
        """Restart with the new version by an override that the next boot removes; roll back if it fails."""
        was = self.services.status()
        trial.callback(end_trial, self.layout)
        set_trial(self.layout, self._folder)
        trial.callback(self._back, was)
        self.services.reload()
        trouble = self.services.start(self.timeouts.ready_s, self.timeouts.settle_s)
        trouble = trouble or _blinder(was, self.services.status())
        if trouble:
            trial.close()
            again = "runs again" if was.wanted else "is active again, and stopped as before"
            raise NotReadyError(f"{self.order.name}: {trouble}; {self.found.proven} {again}")

    def _back(self, was: Status) -> None:
        """Activate the old version again, running or stopped as before."""
        with signals_ignored():
            self.say(f"rolling back to {self.found.proven}")
            end_trial(self.layout)
            self.services.reload()
            if not was.wanted:
                self.services.stop()
                return
            trouble = self.services.start(self.timeouts.ready_s, 0.0)
        if trouble:
            raise NotReadyError(f"{self.order.name} was rolled back, but {self.found.proven} does not start: {trouble}")

    def _switch(self, trial: contextlib.ExitStack) -> None:
        """Activate the version permanently: one rename, then its system files, then systemd's reload.

        Files that need disk space are written before the rename, so that a full disk leaves the old version active.
        """
        shown = self.layout.seen(self._folder)
        with signals_ignored():
            prepared = prepare(self.layout, self._folder)
            one_before = before(self.order.name, self.found)
            if one_before is not None:
                point(self.layout.previous, shown.with_name(one_before))
            point(self.layout.current, shown)
            trial.pop_all()
            place(self.layout, prepared)
            end_trial(self.layout)
            self.services.reload()

    def _enable(self) -> None:
        self.services.enable(True)

    def _start(self) -> None:
        with contextlib.ExitStack() as undo:
            undo.callback(self.services.stop)
            trouble = self.services.start(self.timeouts.ready_s, self.timeouts.settle_s)
            if not trouble:
                undo.pop_all()
                return
        other = before(self.order.name, self.found)
        back = f"`onboard install --rollback` returns to {other}" if other else "there is no version to return to"
        raise NotReadyError(
            f"{self.order.name}: {trouble}; it is stopped, and {back}."
            " `journalctl -u onboard -n 50` has the details; `onboard install` tries again"
        )

    def _prune(self) -> None:
        for name in surplus(self.order.name, self.found):
            remove_version(self.layout, name)


def _blinder(before: Status, now: Status) -> str:
    """Return a complaint about cameras that the READY version before saw and this version does not, else ""."""
    lost = sorted(now.blind - before.blind) if before.runs else []
    return f"is READY, but receives nothing from {', '.join(lost)}, which the previous version received" if lost else ""
