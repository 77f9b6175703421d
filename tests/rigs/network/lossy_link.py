"""Two network namespaces of this machine, joined by a pair of TUN devices and a forwarder that delays and drops.

python lossy_link.py LOSS DELAY_MS SEED

A packet of the network (1500 bytes at most) is dropped with the probability LOSS, or comes DELAY_MS later; both ways,
in order, by one seeded generator. Standard output says "ready PID FD" once commands can be run at its ends, as
`lossy_link` does. A line "LOSS DELAY_MS" on standard input changes the link, and its end ends it. Namespaces, devices
and addresses vanish with the process. `netem` does the same in kernels that have it.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import random
import select
import struct
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
DEVICE = "wire0"
"""The one device of each end beside `lo`, which is down."""
DESKTOP, TARGET = "10.75.0.1", "10.75.0.2"
"""Addresses of the two ends."""
PACKET = 65536
LIBC = ctypes.CDLL(None, use_errno=True)


class NoNamespacesError(RuntimeError):
    """This machine does not let us make namespaces; the message says what was refused."""


@dataclass
class Pipe:
    """One way: what is under way, as (due [ns], packet), and what it counted."""

    source: int
    sink: int
    in_progress: deque[tuple[int, bytes]] = field(default_factory=deque)
    dropped: int = 0
    passed: int = 0


def unshare(flags: int, what: str) -> None:
    """Move this process into new namespaces. Raises NoNamespacesError."""
    if LIBC.unshare(flags) != 0:
        raise NoNamespacesError(f"{what}: {os.strerror(ctypes.get_errno())}")


def own_network() -> None:
    """Move this process into a network of its own, as root there whoever it is here. Raises NoNamespacesError."""
    user, group = os.geteuid(), os.getegid()
    unshare(CLONE_NEWNET if user == 0 else CLONE_NEWUSER | CLONE_NEWNET, "a network namespace cannot be made")
    if user != 0:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")


def device(address: str, other: str) -> int:
    """Return the descriptor of a new TUN device of this namespace. Raises NoNamespacesError."""
    try:
        fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", DEVICE.encode(), IFF_TUN | IFF_NO_PI))
        ip("address", "add", address, "peer", other, "dev", DEVICE)
        ip("link", "set", DEVICE, "txqueuelen", "10000", "up")
    except (OSError, subprocess.CalledProcessError) as error:
        raise NoNamespacesError(f"a TUN device cannot be made: {error}") from error
    return fd


def ip(*arguments: str) -> None:
    """Run iproute2."""
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def forward(pipes: list[Pipe], loss: float, delay_ms: float, seed: int) -> None:
    """Pass packets on until standard input ends."""
    chance = random.Random(seed)
    poll = select.poll()
    control = sys.stdin.fileno()
    for fd in (control, *(pipe.source for pipe in pipes)):
        poll.register(fd, select.POLLIN | select.POLLHUP)
    while True:
        due_ns = [pipe.in_progress[0][0] for pipe in pipes if pipe.in_progress]
        wait_ms = max(0.0, (min(due_ns) - time.monotonic_ns()) / 1e6) if due_ns else None
        ready = {fd for fd, _ in poll.poll(wait_ms)}
        if control in ready:
            line = os.read(control, PACKET).decode().split()
            if not line:
                return
            loss, delay_ms = float(line[-2]), float(line[-1])
        for pipe in pipes:
            if pipe.source in ready:
                take(pipe, chance, loss, round(delay_ms * 1e6))
            give(pipe)


def take(pipe: Pipe, chance: random.Random, loss: float, delay_ns: int) -> None:
    """Take what one end has sent, and drop some of it."""
    while True:
        try:
            packet = os.read(pipe.source, PACKET)
        except BlockingIOError:
            return
        if chance.random() < loss:
            pipe.dropped += 1
        else:
            pipe.in_progress.append((time.monotonic_ns() + delay_ns, packet))


def give(pipe: Pipe) -> None:
    """Hand over what has been under way for long enough."""
    while pipe.in_progress and pipe.in_progress[0][0] <= time.monotonic_ns():
        with contextlib.suppress(OSError):  # a device whose queue is full drops, as any does
            os.write(pipe.sink, pipe.in_progress.popleft()[1])
            pipe.passed += 1


def main() -> None:
    """Be the link. Exit code 3 with the reason on standard error where this machine does not allow it."""
    loss, delay_ms, seed = float(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    try:
        own_network()
        desktop_network = os.open("/proc/self/ns/net", os.O_RDONLY)
        desktop = device(DESKTOP, TARGET)
        unshare(CLONE_NEWNET, "a second network namespace cannot be made")
        target = device(TARGET, DESKTOP)
    except (NoNamespacesError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(3)
    sys.stdout.write(f"ready {os.getpid()} {desktop_network}\n")
    sys.stdout.flush()
    pipes = [Pipe(desktop, target), Pipe(target, desktop)]
    forward(pipes, loss, delay_ms, seed)
    for way, pipe in zip(("to the target", "back"), pipes, strict=True):
        sys.stderr.write(f"{way}: {pipe.passed} packets passed, {pipe.dropped} dropped\n")


@dataclass(frozen=True)
class Link:
    """The two ends, while the process lives. `desktop` and `target` go in front of a command."""

    process: subprocess.Popen[str]
    desktop: tuple[str, ...]
    target: tuple[str, ...]

    def change(self, loss: float, delay_ms: float) -> None:
        """Make it lose and delay otherwise from now on."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{loss} {delay_ms}\n")
        self.process.stdin.flush()


@contextlib.contextmanager
def lossy_link(loss: float, delay_ms: float, seed: int = 1) -> Iterator[Link]:
    """Join two namespaces. Raises NoNamespacesError with the reason where this machine does not let us."""
    command = [sys.executable, __file__, str(loss), str(delay_ms), str(seed)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        words = process.stdout.readline().split()
        if not words:
            raise NoNamespacesError(process.stderr.read().strip())
        pid, desktop = int(words[1]), int(words[2])
        user = () if os.geteuid() == 0 else ("--user", "--preserve-credentials")
        enter = ("nsenter", "--target", str(pid), *user)
        try:
            yield Link(process, (*enter, f"--net=/proc/{pid}/fd/{desktop}"), (*enter, "--net"))
        finally:
            process.stdin.close()
            sys.stderr.write(process.stderr.read())


if __name__ == "__main__":
    main()
