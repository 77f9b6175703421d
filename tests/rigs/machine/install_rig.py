"""A machine to install on: a real systemd as PID 1 of namespaces of its own, and wheels whose service does as told.

Nothing of the real machine is changed: /etc, /opt, /usr/local, /var/lib and /var/cache are overlays in a tmpfs that
goes with the namespace, and the only target that systemd starts is an empty one without dependencies, so none of the
machine's own units run.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import signal
import stat
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.rigs.machine.waiting import children, until

ROOT = Path(__file__).parents[3]
SYSTEMD = Path("/lib/systemd/systemd")
LIMIT_S = 100.0
NAMESPACES = ("unshare", "--fork", "--kill-child", "--pid", "--mount-proc", "--mount", "--cgroup")

BOOT = """\
set -eu
mount --make-rprivate /
mount -t tmpfs tmpfs "$1"
for folder in etc opt usr/local var/lib var/cache; do
    mkdir -p "$1/$folder/upper" "$1/$folder/work"
    mount -t overlay overlay -o "lowerdir=/$folder,upperdir=$1/$folder/upper,workdir=$1/$folder/work" "/$folder"
done
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system
printf '[Unit]\\nDescription=Nothing\\nDefaultDependencies=no\\n' > /run/systemd/system/onboard-nothing.target
exec env -i container=test PATH="$PATH" \\
    "$2" --system --unit=onboard-nothing.target --show-status=no --log-target=null
"""

UNIT = """\
[Unit]
Description=A service for tests
DefaultDependencies=no
StartLimitIntervalSec=60
StartLimitBurst=4

[Service]
Type=notify
ExecStart=/opt/onboard/current/bin/onboard run --config /etc/onboard/onboard.toml
Restart=on-failure
RestartSec=100ms
TimeoutStartSec=4
TimeoutStopSec=4

[Install]
WantedBy=multi-user.target
"""

SERVICE = '''\
#!python
"""Does as {behaviour!r}: a service of one file, without dependencies."""
import os, signal, socket, sys, time

def ready(more):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.sendto(b"READY=1\\nSTATUS=" + sys.prefix.encode() + more, os.environ["NOTIFY_SOCKET"])

if sys.argv[1] == "check-config":
    text = open(sys.argv[3]).read()
    if "nonsense" in text:
        sys.exit("error: " + sys.argv[3] + ": unknown key nonsense")
    sys.exit(0)
behaviour = {behaviour!r}
if behaviour == "ends":
    sys.exit(3)
if behaviour != "silent":
    ready(b", without rear" if behaviour == "blind" else b"")
if behaviour == "crashes":
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGKILL)
signal.pause()
'''


def missing() -> str:
    """Return why no systemd can be started here, "" when one can."""
    if os.geteuid() != 0:
        return "namespaces with a systemd of their own need root"
    for tool in ("unshare", "nsenter", "systemctl"):
        if shutil.which(tool) is None:
            return f"{tool} is not on this machine"
    return "" if SYSTEMD.exists() else f"{SYSTEMD} is not on this machine"


def wheel(
    folder: Path,
    release: str,
    behaviour: str = "ready",
    *,
    unit: str | None = UNIT,
    name: str = "onboard",
    needs: str = "",
    lock: str | None = None,
) -> Path:
    """Return a wheel whose service is `ready`, so but `blind`, `silent`, `ends` at once, or `crashes` after READY."""
    requires = f"Requires-Dist: {needs}\n" if needs else ""
    info, data = f"{name}-{release}.dist-info", f"{name}-{release}.data"
    files = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {release}\n{requires}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "onboard/config/robots/default/onboard.toml": f"# as release {release} knows it\n",
        f"{data}/scripts/onboard": SERVICE.format(behaviour=behaviour),
    }
    if unit is not None:
        files[f"{data}/data/share/onboard/systemd/onboard.service"] = unit
    if lock is not None:
        files[f"{data}/data/share/onboard/requirements.lock"] = lock
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{release}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        rows = "".join(f"{file},{_hash(text)},{len(text.encode())}\n" for file, text in files.items())
        files[f"{info}/RECORD"] = f"{rows}{info}/RECORD,,\n"
        for file, text in files.items():
            entry = zipfile.ZipInfo(file)  # of one date, so that the same wheel has the same bytes
            entry.external_attr = (stat.S_IFREG | 0o755) << 16
            archive.writestr(entry, text, zipfile.ZIP_DEFLATED)
    return path


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return "sha256=" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


@dataclass(frozen=True)
class Machine:
    """pid: of its systemd, outside."""

    pid: int

    def command(self, *words: str | Path) -> list[str]:
        """Return the words that run a command in there."""
        return ["nsenter", "-t", str(self.pid), "-m", "-p", "-C", "--wd=/", "--", *map(str, words)]

    def run(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            self.command(*words), capture_output=True, text=True, timeout=LIMIT_S, check=False, env=environment()
        )

    def onboard(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """Run the command line of this tree in there."""
        return self.run(*onboard(*words))

    def show(self, name: str) -> str:
        """Return a property of the service."""
        return self.run("systemctl", "show", "--value", f"--property={name}", "onboard.service").stdout.strip()

    def file(self, path: str | Path) -> Path:
        """Return a file of in there, as it is seen from outside; its links lead nowhere there."""
        return Path(f"/proc/{self.pid}/root") / str(path).lstrip("/")

    def running(self) -> str:
        """Return the name of the version that is READY, "" when none is; the service tells it itself."""
        return Path(self.show("StatusText").partition(",")[0]).name if self.show("ActiveState") == "active" else ""


def onboard(*words: str | Path) -> list[str]:
    """Return the words of this tree's command line."""
    return [sys.executable, "-m", "onboard", *map(str, words)]


def environment() -> dict[str, str]:
    """Return an environment in which this tree is imported, and pip asks no network."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "PIP_NO_INDEX": "1", "COLUMNS": "200"}


@contextmanager
def machine(folder: Path) -> Iterator[Machine]:
    """Boot a systemd of its own; whatever happens, all of its processes end with it."""
    script = folder / "boot.sh"
    script.write_text(textwrap.dedent(BOOT))
    box = folder / "box"
    box.mkdir()
    launched = subprocess.Popen(
        [*NAMESPACES, "bash", str(script), str(box), str(SYSTEMD)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=(folder / "boot.err").open("wb"),
        start_new_session=True,
    )
    try:
        until(lambda: bool(children(launched.pid)) or launched.poll() is not None)
        begun = children(launched.pid)
        assert begun, (folder / "boot.err").read_text()
        there = Machine(begun[0])
        until(lambda: launched.poll() is not None or _booted(there))
        assert launched.poll() is None, (folder / "boot.err").read_text()
        yield there
    finally:
        os.killpg(launched.pid, signal.SIGKILL)
        launched.wait()


def _booted(there: Machine) -> bool:
    """Return whether its systemd answers; by its own program's name, since the shell before has not mounted /run."""
    if Path(f"/proc/{there.pid}/comm").read_text().strip() != "systemd":
        return False
    return there.run("systemctl", "is-system-running").stdout.strip() in ("running", "degraded", "starting")
