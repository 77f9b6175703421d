"""`onboard uninstall`: stops the service and removes what `onboard install` made; recordings stay unless purged."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path

from onboard.commands.install.install import exclusive, os_errors_as_input_errors, require_root
from onboard.commands.install.layout import Layout
from onboard.commands.install.run_program import signals_as_errors
from onboard.commands.install.systemctl import Systemd
from onboard.commands.install.unit_files import end_trial, on_trial, present, remove
from onboard.values.errors import InputError


@os_errors_as_input_errors()
def uninstall(layout: Layout, services: Systemd, say: Callable[[str], None], *, purge: bool, dry_run: bool) -> None:
    """Remove the service, all versions and their cache. Safe to call again after an interruption.

    purge: remove the configuration, the unit's drop-ins and the recordings too. The service's user stays, because it
    may own other files.
    Raises InputError naming the file that could not be removed.
    """
    installed = _installed(layout)
    folders = [folder for folder in (layout.home, layout.cache, *_kept(layout, purge=purge)) if folder.exists()]
    if not installed and not folders:
        say("nothing is installed")
        return
    if dry_run:
        for words in _lines(installed, folders):
            say(f"would {words}")
        return
    require_root("uninstall")
    with contextlib.ExitStack() as held:
        held.enter_context(exclusive(layout))
        held.enter_context(signals_as_errors())
        for words in _lines(installed, folders):
            say(words)
        _remove(layout, services, installed, folders)
    for folder in _kept(layout, purge=True):
        if folder.exists():
            say(f"{folder} stays; --purge removes it")


def _installed(layout: Layout) -> list[Path]:
    return [*present(layout), *on_trial(layout)]


def _kept(layout: Layout, *, purge: bool) -> tuple[Path, ...]:
    return (layout.configuration, layout.drop_ins, layout.state) if purge else ()


def _lines(installed: list[Path], folders: list[Path]) -> list[str]:
    service = ["stop the service and let it start no more"] if installed else []
    return [*service, *(f"remove {path}" for path in (*installed, *folders))]


def _remove(layout: Layout, services: Systemd, installed: list[Path], folders: list[Path]) -> None:
    """Stop the service first: systemd could start it as long as its files are there."""
    if installed:
        services.stop()
        services.enable(False)
    try:
        remove(layout)
        end_trial(layout)
        services.reload()
        for folder in folders:
            shutil.rmtree(folder)
    except OSError as error:
        raise InputError(f"{error.filename}: cannot be removed: {error.strerror}") from error
