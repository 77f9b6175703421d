"""The recordings: whether the service can write to their folder (sandbox, permissions), and the disk's room."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from onboard.commands.doctor.finding import Finding, Level, Problem, combined, green
from onboard.commands.doctor.service import UNIT, unit_properties
from onboard.config.config import RecordSection
from onboard.recording.retention import MIN_FREE_BYTES, Budget, StoredRecording, check_usable, is_marked, judge, nearest
from onboard.values.errors import ConfigError

DROP_IN = f"/etc/systemd/system/{UNIT}.d/robot.conf"

OWN_FOLDERS = {
    "StateDirectory": "/var/lib",
    "CacheDirectory": "/var/cache",
    "LogsDirectory": "/var/log",
    "RuntimeDirectory": "/run",
}
HOMES = ("/home", "/root", "/run/user")
SYSTEM_FOLDERS = {"no": (), "yes": ("/usr", "/boot"), "full": ("/usr", "/boot", "/etc"), "strict": ("/",)}
PASSING = ("/tmp", "/var/tmp")
PROPERTIES = (
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
    """A unit's access to folders. The deepest listed folder decides for everything below it.

    writable, read_only: as the service sees them
    hidden:              invisible to the service, whatever the other lists say
    passing:             private to the service, and empty at each start
    """

    writable: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    passing: tuple[str, ...] = ()


def sandbox(properties: Mapping[str, str]) -> Sandbox:
    """Return a unit's sandbox. properties: `PROPERTIES`, as `systemctl show` prints them."""
    home = properties.get("ProtectHome", "no")
    own = (f"{above}/{name}" for key, above in OWN_FOLDERS.items() for name in properties.get(key, "").split())
    return Sandbox(
        writable=(*_paths(properties, "ReadWritePaths"), *_bound(properties, "BindPaths"), *own),
        read_only=(
            *_paths(properties, "ReadOnlyPaths"),
            *_bound(properties, "BindReadOnlyPaths"),
            *SYSTEM_FOLDERS.get(properties.get("ProtectSystem", "no"), ()),
            *(HOMES if home == "read-only" else ()),
        ),
        hidden=(*_paths(properties, "InaccessiblePaths"), *(HOMES if home in ("yes", "tmpfs") else ())),
        passing=PASSING if properties.get("PrivateTmp") == "yes" else (),
    )


def of_unit(unit: str = UNIT) -> Sandbox:
    """Return a unit's sandbox, drop-ins included; empty where systemd does not answer."""
    return sandbox(unit_properties(unit, PROPERTIES))


def sandbox_problem(box: Sandbox, directory: Path) -> Problem | None:
    """Return why the sandbox keeps the service from recording into a folder, None if it does not."""
    folder = directory.resolve()
    hidden, passing = _nearest(folder, box.hidden), _nearest(folder, box.passing)
    writable, read_only = _nearest(folder, box.writable), _nearest(folder, box.read_only)
    elsewhere = "set record.directory to another folder: /var/lib/onboard/recordings, or one on a disk below /media"
    if hidden is not None:
        return Problem(Level.RED, f"{UNIT} cannot access {hidden}, so it cannot record to {folder}", elsewhere)
    if passing is not None and _depth(writable) <= _depth(passing):
        return Problem(Level.RED, f"{passing} is private to {UNIT} and deleted when it ends", elsewhere)
    if read_only is not None and _depth(writable) <= _depth(read_only):
        remedy = f"create it, and add `ReadWritePaths={folder}` under [Service] in {DROP_IN}"
        return Problem(Level.RED, f"{folder} is read-only for {UNIT}", remedy)
    return None


def _paths(properties: Mapping[str, str], key: str) -> tuple[str, ...]:
    """Return paths without systemd's prefixes "-" (may be missing) and "+" (below the unit's root)."""
    return tuple(word.lstrip("-+") for word in properties.get(key, "").split())


def _bound(properties: Mapping[str, str], key: str) -> tuple[str, ...]:
    """Return the bound folders as the service sees them: "from:to:rbind", or one path for both."""
    return tuple(path.split(":")[1] if ":" in path else path for path in _paths(properties, key))


def _nearest(folder: Path, among: Iterable[str]) -> Path | None:
    """Return the deepest of these folders that contains the folder, None without one."""
    above = [Path(one).resolve() for one in among]
    return max((one for one in above if folder.is_relative_to(one)), key=_depth, default=None)


def _depth(folder: Path | None) -> int:
    return 0 if folder is None else len(folder.parts)


# ---- The recording process: its user, working directory and sandbox, and whether it may write to the folder

ROOT_UID = 0
ASK_ROOT = "run the check again with sudo"


@dataclass(frozen=True, slots=True)
class Writer:
    """The process that records.

    user:  the service's user; None for this user
    start: base of a relative `record.directory`
    box:   its unit's sandbox
    """

    user: str | None
    start: Path
    box: Sandbox = field(default_factory=Sandbox)


def this_process() -> Writer:
    """Return this process as the writer of recordings."""
    return Writer(None, Path.cwd())


def service_writer(state: Mapping[str, str]) -> Writer:
    """Return the service as the writer of recordings; systemd's defaults are root and /. `state`: see `unit_state`."""
    folder = state.get("WorkingDirectory", "").lstrip("!-") or "/"
    return Writer(state.get("User") or "root", Path(folder), of_unit())


def permission_problem(writer: Writer, directory: Path) -> Problem | None:
    """Return why the writer cannot record into a folder, which may be missing yet; None if it can.

    Raises OSError if this user cannot see the folder.
    """
    there = nearest(directory)
    if writer.user is None:
        return _own(directory)
    try:
        account = pwd.getpwnam(writer.user)
    except KeyError:
        return Problem(Level.RED, f"the service's user {writer.user} does not exist", "`onboard install`")
    if account.pw_uid == os.geteuid():
        return _own(directory)
    if os.geteuid() != ROOT_UID:
        return Problem(Level.AMBER, f"only root can check whether {writer.user} may write to {there}", ASK_ROOT)
    if _may_write(account, there):
        return None
    return Problem(
        Level.RED, f"{there} cannot be written by {writer.user}", f"`install -d -o {writer.user} {directory}`"
    )


def _own(directory: Path) -> Problem | None:
    try:
        check_usable(directory)
    except ConfigError as error:
        return Problem(Level.RED, str(error), f"create {directory}, and make the robot's user its owner")
    return None


def _may_write(account: pwd.struct_passwd, folder: Path) -> bool:
    """Return whether a user may create files in a folder: root runs `test` as this user."""
    shown = subprocess.run(
        ["/usr/bin/test", "-d", str(folder), "-a", "-w", str(folder), "-a", "-x", str(folder)],
        user=account.pw_uid,
        group=account.pw_gid,
        extra_groups=os.getgrouplist(account.pw_name, account.pw_gid),
        cwd="/",
        check=False,
    )
    return shown.returncode == 0


# ---- Room for recordings, by the recorder's own rules (`onboard/recording/retention.py`)

GB = 1e9
MB = 1e6
MOVE_OUT = "move recordings away, or remove marks (`onboard keep FILE --release`)"


def disk(section: RecordSection, writer: Writer) -> Finding:
    """Return whether the recordings that the configuration allows fit on the disk, and the writer may write them.

    Raises OSError if this user cannot see them.
    """
    if not section.enabled:
        return green("disk", "nothing is recorded")
    folder = writer.start / section.directory
    held, usage = _held(folder), shutil.disk_usage(nearest(folder))
    refused = filter(None, [sandbox_problem(writer.box, folder), permission_problem(writer, folder)])
    problems = [*_room(section, held, usage.free), *refused]
    held_mb, marked_mb = _megabytes(held), _megabytes([one for one in held if one.marked])
    marked = f", {marked_mb / 1e3:.1f} GB of it marked" if marked_mb else ""
    allowed = f"recordings hold {held_mb / 1e3:.1f} of {section.max_total_mb / 1e3:g} GB{marked}"
    summary = f"{usage.free / GB:.1f} of {usage.total / GB:.1f} GB free at {folder}; {allowed}"
    values = {"free_mb": round(usage.free / MB), "recordings_mb": round(held_mb), "marked_mb": round(marked_mb)}
    bounds = {"max_total_mb": section.max_total_mb, "min_free_mb": MIN_FREE_BYTES / MB}
    return combined("disk", summary, problems, **values, **bounds)


def _held(folder: Path) -> list[StoredRecording]:
    """Return the folder's recordings, oldest first. Raises OSError if they cannot be read."""
    if nearest(folder) != folder.absolute() or not folder.is_dir():
        return []
    found = []
    for path in sorted(path for path in folder.iterdir() if path.suffix == ".mcap"):
        with contextlib.suppress(FileNotFoundError):  # a runtime made room meanwhile
            found.append(StoredRecording(path, path.stat().st_size, is_marked(path), False))
    return found


def _megabytes(held: list[StoredRecording]) -> float:
    return sum(one.size_bytes for one in held) / MB


def _room(section: RecordSection, held: list[StoredRecording], free_bytes: float) -> list[Problem]:
    budget = Budget(section.max_total_mb * MB, section.max_file_mb * MB)
    verdict = judge(held, budget, free_bytes)
    if verdict.full:
        text = f"the disk is full: less than {budget.free_bytes / MB:g} MB are free, so nothing is recorded"
        return [Problem(Level.RED, text, MOVE_OUT)]
    if verdict.over_bytes > 0.0:
        text = f"marked recordings leave no room within record.max_total_mb = {section.max_total_mb:g}"
        return [Problem(Level.AMBER, text, MOVE_OUT)]
    if free_bytes < budget.free_bytes + budget.file_bytes:
        text = f"the disk is nearly full: no room for another file of record.max_file_mb = {section.max_file_mb:g}"
        return [Problem(Level.AMBER, text, f"{MOVE_OUT}, or lower record.max_file_mb")]
    grow_mb = max(section.max_total_mb - _megabytes(held), 0.0)
    if free_bytes < grow_mb * MB + budget.free_bytes:
        text = f"recordings may still grow by {grow_mb / 1e3:.1f} GB, but the disk has no room for it"
        return [Problem(Level.AMBER, text, "lower record.max_total_mb, or free disk space")]
    return []
