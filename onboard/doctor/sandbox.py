"""Which folders the service can write to, by its unit: systemd shows it all others read-only, empty, or not at all."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from onboard.doctor.finding import Complaint, Level

UNIT = "onboard.service"
DROP_IN = "/etc/systemd/system/onboard.service.d/robot.conf"
ANSWER_LIMIT_S = 10.0

OWN_FOLDERS = {
    "StateDirectory": "/var/lib",
    "CacheDirectory": "/var/cache",
    "LogsDirectory": "/var/log",
    "RuntimeDirectory": "/run",
}
HOMES = ("/home", "/root", "/run/user")
SYSTEM_FOLDERS = {"no": (), "yes": ("/usr", "/boot"), "full": ("/usr", "/boot", "/etc"), "strict": ("/",)}
PASSING = ("/tmp", "/var/tmp")
ASKED = (
    "ProtectSystem",
    "ProtectHome",
    "PrivateTmp",
    "ReadWritePaths",
    "ReadOnlyPaths",
    "InaccessiblePaths",
    "BindPaths",
    "BindReadOnlyPaths",
    *OWN_FOLDERS,
)


@dataclass(frozen=True, slots=True)
class Sandbox:
    """What a unit says of folders, each with all that is below it unless another one of these is nearer.

    writable, read_only: as the service sees them
    hidden:              not there for it, whatever the others say
    passing:             its own and empty at each start
    """

    writable: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    passing: tuple[str, ...] = ()


def sandbox(told: Mapping[str, str]) -> Sandbox:
    """Return what a unit says of folders. told: the properties `ASKED`, as `systemctl show` has them."""
    home = told.get("ProtectHome", "no")
    own = (f"{above}/{name}" for key, above in OWN_FOLDERS.items() for name in told.get(key, "").split())
    return Sandbox(
        writable=(*_paths(told, "ReadWritePaths"), *_bound(told, "BindPaths"), *own),
        read_only=(
            *_paths(told, "ReadOnlyPaths"),
            *_bound(told, "BindReadOnlyPaths"),
            *SYSTEM_FOLDERS.get(told.get("ProtectSystem", "no"), ()),
            *(HOMES if home == "read-only" else ()),
        ),
        hidden=(*_paths(told, "InaccessiblePaths"), *(HOMES if home in ("yes", "tmpfs") else ())),
        passing=PASSING if told.get("PrivateTmp") == "yes" else (),
    )


def of_unit(unit: str = UNIT) -> Sandbox:
    """Return what the unit says, as systemd has read it with its drop-ins; nothing where systemd does not answer."""
    systemctl = shutil.which("systemctl")
    if systemctl is None:
        return Sandbox()
    command = [systemctl, "show", unit, f"--property={','.join(ASKED)}"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=ANSWER_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return Sandbox()
    return sandbox(dict(line.partition("=")[::2] for line in done.stdout.splitlines()))


def kept_out(box: Sandbox, directory: Path) -> Complaint | None:
    """Return why the service cannot keep recordings in a folder whatever its owner, None when it can."""
    folder = directory.resolve()
    hidden, passing = _nearest(folder, box.hidden), _nearest(folder, box.passing)
    writable, read_only = _nearest(folder, box.writable), _nearest(folder, box.read_only)
    elsewhere = "let record.directory name another folder: /var/lib/onboard/recordings, or one on a disk below /media"
    if hidden is not None:
        return Complaint(Level.RED, f"{UNIT} does not see {hidden}, so not {folder}", elsewhere)
    if passing is not None and _depth(writable) <= _depth(passing):
        return Complaint(Level.RED, f"{passing} is {UNIT}'s own, and gone when it ends", elsewhere)
    if read_only is not None and _depth(writable) <= _depth(read_only):
        remedy = f"make it, and write `ReadWritePaths={folder}` below [Service] into {DROP_IN}"
        return Complaint(Level.RED, f"{folder} is read-only for {UNIT}", remedy)
    return None


def _paths(told: Mapping[str, str], key: str) -> tuple[str, ...]:
    """Return paths without what systemd puts before them: may be missing, below the unit's own root."""
    return tuple(word.lstrip("-+") for word in told.get(key, "").split())


def _bound(told: Mapping[str, str], key: str) -> tuple[str, ...]:
    """Return where the service sees what is bound: "from:to:rbind", or one path where both are the same."""
    return tuple(path.split(":")[1] if ":" in path else path for path in _paths(told, key))


def _nearest(folder: Path, among: Iterable[str]) -> Path | None:
    """Return the deepest of these folders that the folder is or lies in."""
    above = [Path(one).resolve() for one in among]
    return max((one for one in above if folder.is_relative_to(one)), key=_depth, default=None)


def _depth(folder: Path | None) -> int:
    return 0 if folder is None else len(folder.parts)
