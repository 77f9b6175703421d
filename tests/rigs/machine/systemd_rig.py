"""A real systemd as PID 1 of namespaces of its own, in a root of its own.

The root is a tmpfs: /usr, Python and this tree are bound into it read-only, /etc, /var, /run, /tmp and /dev are its
own, and the machine's file system is let go of (`pivot_root`) before systemd starts. That is not for tidiness: a unit
with default dependencies pulls in systemd-tmpfiles, which empties /tmp, and udev, which changes the nodes of /dev.
Units come from one folder (SYSTEMD_UNIT_PATH): the service's own, and empty targets in place of the system's.
The network is shared, so that a test speaks DDS with the service over `lo`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.rigs.machine.waiting import children, until

ROOT = Path(__file__).parents[3]
UNITS = ROOT / "systemd"
SYSTEM = Path("/usr/lib/systemd/system")
"""systemd's own units."""
SLEEP_TARGETS = ("sleep.target", "suspend.target")
SYSTEMD = Path("/lib/systemd/systemd")
TOOLS = ("unshare", "setpriv", "nsenter", "pivot_root", "systemctl", "journalctl")
NAMESPACES = ("--pid", "--mount", "--cgroup", "--uts", "--ipc")
ANSWER_S = 60.0
START_S = 90.0
USER_ID = 990
CACHE = ROOT / ".numba-cache" / "service"

BUILD_ROOT = r"""
set -eu
new=$1; shift
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs "$new"
cd "$new"
mkdir -p usr proc sys dev etc run tmp var/lib var/cache/numba var/log/journal opt/python opt/onboard root home old
for link in bin sbin lib lib64; do if [ -L "/$link" ]; then cp -P "/$link" .; fi; done
chmod 1777 tmp
readonly_bind() { mkdir -p "$2"; mount --bind "$1" "$2"; mount -o remount,ro,bind "$2"; }
readonly_bind /usr usr
readonly_bind "$PYTHON_BASE" opt/python
cp -r "$FILES/etc" .
if [ -z "$WHEELS" ]; then
    mkdir -p opt/onboard/tree
    cp -r "$FILES/opt" .
    ln -s versions/test opt/onboard/current
    readonly_bind "$TREE/onboard" opt/onboard/tree/onboard
    readonly_bind "$TREE/engines/pretrained" opt/onboard/tree/engines/pretrained
    readonly_bind "$SITE_PACKAGES" "opt/onboard/versions/test/$SITE_PACKAGES_BELOW"
else
    mount -t tmpfs -o mode=755 tmpfs usr/local
    mkdir run/upper run/work
    mount -t overlay overlay -o "lowerdir=$PYTHON_BASE,upperdir=$new/run/upper,workdir=$new/run/work" opt/python
    readonly_bind "$SITE_PACKAGES" opt/packages
    readonly_bind "$TREE" opt/tree
    readonly_bind "$WHEELS" opt/wheels
fi
mount --bind "$CACHE" var/cache/numba
mount -t tmpfs -o mode=755 tmpfs dev
for node in null zero full random urandom tty; do touch dev/$node; mount --bind /dev/$node dev/$node; done
mkdir dev/shm; mount -t tmpfs -o mode=1777 tmpfs dev/shm
ln -s /proc/self/fd dev/fd
mount -t tmpfs -o mode=755 tmpfs run
cp -r "$FILES/run" .
mount -t proc proc proc
mount --bind proc/sys proc/sys; mount -o remount,ro,bind proc/sys
mount --bind /sys sys; mount -o remount,ro,bind sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
pivot_root . old
umount -l /old
rmdir /old
exec env -i PATH=/usr/bin:/usr/sbin container=test \
    SYSTEMD_GENERATOR_PATH=/none SYSTEMD_UNIT_PATH="$UNIT_PATH" \
    /lib/systemd/systemd --system --unit=test.target --show-status=no --log-target=journal --log-level=info
"""

TARGETS = ("sysinit", "basic", "shutdown", "umount", "sockets", "multi-user", "local-fs", "network", "timers")
MACHINE = {
    "run/units/test.target": "[Unit]\nRequires=systemd-journald.service\nAfter=systemd-journald.service\n",
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\n"
    f"onboard:x:{USER_ID}:{USER_ID}::/var/lib/onboard:/usr/sbin/nologin\nnobody:x:65534:65534::/:/usr/sbin/nologin\n",
    "etc/group": f"root:x:0:\nonboard:x:{USER_ID}:\nvideo:x:44:onboard\ndialout:x:20:onboard\nnogroup:x:65534:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "etc/machine-id": "0123456789abcdef0123456789abcdef\n",
    "etc/os-release": "ID=test\n",
    "etc/systemd/journald.conf": "[Journal]\nStorage=volatile\nReadKMsg=no\nAudit=no\n",
}
JOURNALD = ("systemd-journald.service", "systemd-journald.socket", "systemd-journald-dev-log.socket")

GIVE_PACKAGES = """
folder=$("$1" -c 'import site; print(site.getsitepackages()[-1])')
rm -rf "$folder"
mkdir -p "$(dirname "$folder")"
ln -s /opt/packages "$folder"
"""
"""Where that is depends on whose libpython the interpreter finds in there."""

UNIT_PATH = ("/run/units", "/run/systemd/system")
INSTALLED_UNIT_PATH = ("/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system")
PYTHON = f"/opt/python/bin/{Path(sys.executable).resolve().name}"

COMMAND = """#!/opt/onboard/current/bin/python
# `onboard` as installed, that can be made to hang: SIGUSR1 stops its event loop, and nothing else of it.
import signal, threading
from onboard.__main__ import main

signal.signal(signal.SIGUSR1, lambda *_: threading.Event().wait())
main()
"""
DROP_IN = "[Service]\nEnvironment=PYTHONPATH=/opt/onboard/tree NUMBA_CACHE_DIR=/var/cache/numba OMP_NUM_THREADS=1\n"
WRITABLE = "ReadWritePaths=/var/cache/numba\n"


def missing() -> str:
    """Return why no systemd can be started here, or ""."""
    if os.geteuid() != 0:
        return "namespaces of this kind need root"
    absent = [tool for tool in TOOLS if shutil.which(tool) is None]
    if absent or not SYSTEMD.exists():
        return f"there is no {absent[0] if absent else SYSTEMD}"
    return "" if _cgroup2() else "there is no cgroup2"


class Machine:
    """A systemd that runs; `files` are those that its root begins with, by path below it.

    The service is this tree's, there from the beginning. With a folder of `wheels` there is none: it is to be
    installed, and the Python that it is made from has the packages of the tests' own.
    """

    def __init__(self, folder: Path, files: dict[str, str], name: str, wheels: Path | None = None) -> None:
        self._group = _cgroup2() / f"onboard-test-{name}-{os.getpid()}"
        given = folder / "files"
        service = _service_files() if wheels is None else {}
        for path, text in {**_machine_files(), **service, **files}.items():
            _write(given / path, text)
        if wheels is None:
            (given / "opt/onboard/versions/test/bin/onboard").chmod(0o755)
            (given / "opt/onboard/versions/test/bin/python").symlink_to(PYTHON)
        CACHE.mkdir(parents=True, exist_ok=True)
        CACHE.chmod(0o777)
        root = folder / "root"
        root.mkdir()
        self._group.mkdir()
        join = f'echo $$ > "{self._group}/cgroup.procs"; exec "$@"'
        namespaces = ["setpriv", "--pdeathsig", "KILL", "unshare", "--fork", "--kill-child", *NAMESPACES]
        self._log = folder / "systemd.log"
        with self._log.open("wb") as log:
            self._outer = subprocess.Popen(
                ["bash", "-c", join, "bash", *namespaces, "bash", "-c", BUILD_ROOT, "bash", str(root)],
                env={**os.environ, **_places(given, wheels)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._init = 0
        try:
            until(self._running, ANSWER_S)
            if wheels is not None:
                self.run("sh", "-ec", GIVE_PACKAGES, "sh", PYTHON)
        except AssertionError:
            self.close()
            raise

    def run(self, *words: str, check: bool = True, limit_s: float = START_S) -> str:
        """Run a command in the machine and return what it says. Fails the test when it fails."""
        done = self.tried(*words, limit_s=limit_s)
        assert done.returncode == 0 or not check, f"{' '.join(words)}: {done.stdout}{done.stderr}\n{self.journal()}"
        return done.stdout

    def tried(self, *words: str, limit_s: float = START_S) -> subprocess.CompletedProcess[str]:
        """Run a command in the machine and return what came of it."""
        entered = ["nsenter", "--target", str(self._init), *NAMESPACES, *words]
        return subprocess.run(entered, capture_output=True, text=True, timeout=limit_s, check=False)

    def show(self, *names: str, unit: str = "onboard.service") -> dict[str, str]:
        """Return properties of a unit."""
        output = self.run("systemctl", "show", unit, f"--property={','.join(names)}")
        return dict(line.split("=", 1) for line in output.splitlines() if "=" in line)

    def is_state(self, state: str) -> bool:
        """Return whether the service is in an ActiveState."""
        return self.show("ActiveState")["ActiveState"] == state

    def main_pid(self) -> int:
        """Return the service's main process, as this process sees it; 0 when there is none."""
        inner = self.show("MainPID")["MainPID"]
        for status in Path("/proc").glob("[0-9]*/status"):
            with contextlib.suppress(OSError):
                ids = next(line for line in status.read_text().splitlines() if line.startswith("NSpid:")).split()
                if inner != "0" and ids[-1] == inner and len(ids) > 2 and self._mine(status.parent):
                    return int(status.parent.name)
        return 0

    def journal(self, *words: str) -> list[dict[str, Any]]:
        """Return entries of the journal."""
        self.tried("journalctl", "--sync")
        output = self.tried("journalctl", "--output=json", "--no-pager", *words).stdout
        return [json.loads(line) for line in output.splitlines()]

    def write(self, path: str, text: str) -> None:
        """Write a file of the machine."""
        _write(Path(f"/proc/{self._init}/root") / path.lstrip("/"), text)

    def close(self) -> None:
        """End it with all its processes, and leave nothing behind. Safe to call twice."""
        if self._init:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._init, signal.SIGKILL)
        self._outer.kill()
        self._outer.wait()
        until(self._groups_removed, ANSWER_S)

    def _running(self) -> bool:
        assert self._outer.poll() is None, self._log.read_text()
        begun = children(self._outer.pid)
        if not begun:
            return False
        self._init = begun[0]
        if os.readlink(f"/proc/{self._init}/exe") != str(SYSTEMD.resolve()):
            return False
        return self.tried("systemctl", "is-active", "test.target").stdout.strip() == "active"

    def _mine(self, process: Path) -> bool:
        return os.readlink(process / "ns/pid") == os.readlink(f"/proc/{self._init}/ns/pid")

    def _groups_removed(self) -> bool:
        groups = sorted(self._group.rglob("*/"), reverse=True) if self._group.exists() else []
        with contextlib.suppress(OSError):
            for group in [*groups, self._group]:
                if group.is_dir():
                    group.rmdir()
        return not self._group.exists()


@contextlib.contextmanager
def machine(folder: Path, files: dict[str, str], name: str, wheels: Path | None = None) -> Iterator[Machine]:
    """Run a systemd; whatever happens, nothing of it is left."""
    one = Machine(folder, files, name, wheels)
    try:
        yield one
    finally:
        one.close()


def _machine_files() -> dict[str, str]:
    return {
        **MACHINE,
        **{f"run/units/{name}.target": "[Unit]\nDescription=nothing\n" for name in TARGETS},
        **{f"run/units/{name}": (SYSTEM / name).read_text() for name in JOURNALD},
    }


def _service_files() -> dict[str, str]:
    version = "opt/onboard/versions/test"
    return {
        **{f"run/units/{unit.name}": unit.read_text() for unit in UNITS.glob("*.service")},
        "run/units/onboard.service.d/test.conf": DROP_IN + WRITABLE,
        f"{version}/pyvenv.cfg": "home = /opt/python/bin\ninclude-system-site-packages = false\n",
        f"{version}/bin/onboard": COMMAND,
        f"{version}/{_below()}/.keep": "",
    }


def _places(given: Path, wheels: Path | None) -> dict[str, str]:
    return {
        "WHEELS": str(wheels or ""),
        "UNIT_PATH": ":".join(UNIT_PATH if wheels is None else (*INSTALLED_UNIT_PATH, *UNIT_PATH)),
        "PYTHON_BASE": sys.base_prefix,
        "SITE_PACKAGES": sysconfig.get_path("purelib"),
        "SITE_PACKAGES_BELOW": _below(),
        "TREE": str(ROOT),
        "FILES": str(given),
        "CACHE": str(CACHE),
    }


def _below() -> str:
    return f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"


def _cgroup2() -> Path | None:
    rows = (line.split() for line in Path("/proc/mounts").read_text().splitlines())
    return next((Path(row[1]) for row in rows if row[2] == "cgroup2"), None)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def sleeping(command: str) -> dict[str, str]:
    """Return the files of a sleep that runs a shell's command in the place of what would put this computer to sleep."""
    service = (
        "[Unit]\nDefaultDependencies=no\nRequires=sleep.target\nAfter=sleep.target\n\n"
        f"[Service]\nType=oneshot\nExecStart=/bin/sh -c '{command}'\n"
    )
    targets = {f"run/units/{name}": (SYSTEM / name).read_text() for name in SLEEP_TARGETS}
    return {"run/units/systemd-suspend.service": service, **targets}
