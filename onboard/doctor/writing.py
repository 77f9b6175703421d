"""Who records, from which folder on, in which sandbox, and whether that user may write where the recordings go."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from onboard.doctor.finding import Complaint, Level
from onboard.doctor.sandbox import Sandbox, of_unit
from onboard.errors import ConfigError
from onboard.record_folder import check_usable, nearest

ROOT_UID = 0
ASK_ROOT = "ask again with sudo"


@dataclass(frozen=True, slots=True)
class Writer:
    """Who records.

    user:  the service's, or None for who asks
    start: where a relative `record.directory` begins
    box:   what its unit shows it of folders
    """

    user: str | None
    start: Path
    box: Sandbox = field(default_factory=Sandbox)


def who_asks() -> Writer:
    """Return this process as the one that records."""
    return Writer(None, Path.cwd())


def of_the_service(state: Mapping[str, str]) -> Writer:
    """Return who records as a service; systemd's own defaults are root and /. `state`: see `service.unit_state`."""
    folder = state.get("WorkingDirectory", "").lstrip("!-") or "/"
    return Writer(state.get("User") or "root", Path(folder), of_unit())


def refusal(writer: Writer, directory: Path) -> Complaint | None:
    """Return why the writer cannot record into a folder, which need not be there yet; None when it can.

    Raises OSError where this user cannot see the folder.
    """
    there = nearest(directory)
    if writer.user is None:
        return _own(directory)
    try:
        account = pwd.getpwnam(writer.user)
    except KeyError:
        return Complaint(Level.RED, f"there is no user {writer.user}, as whom the service runs", "`onboard install`")
    if account.pw_uid == os.geteuid():
        return _own(directory)
    if os.geteuid() != ROOT_UID:
        return Complaint(Level.AMBER, f"only root can tell whether {writer.user} may write at {there}", ASK_ROOT)
    if _may_write(account, there):
        return None
    return Complaint(
        Level.RED, f"{there} cannot be written by {writer.user}", f"`install -d -o {writer.user} {directory}`"
    )


def _own(directory: Path) -> Complaint | None:
    try:
        check_usable(directory)
    except ConfigError as error:
        return Complaint(Level.RED, str(error), f"make {directory}, and give it to the robot's user")
    return None


def _may_write(account: pwd.struct_passwd, folder: Path) -> bool:
    """Return whether a user may make files in a folder, by the kernel's word: asked as that user, which root can."""
    asked = subprocess.run(
        ["/usr/bin/test", "-d", str(folder), "-a", "-w", str(folder), "-a", "-x", str(folder)],
        user=account.pw_uid,
        group=account.pw_gid,
        extra_groups=os.getgrouplist(account.pw_name, account.pw_gid),
        cwd="/",
        check=False,
    )
    return asked.returncode == 0
