"""The two configurations of one network: this machine's end of the wire, and a file for the target."""

from __future__ import annotations

import shlex
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path

from hil.live.demo import as_toml, demo_config
from onboard.config.config import DEFAULT_ROBOT, Config, DdsSection, is_name
from onboard.drivers.dds.domain import LOOPBACK
from onboard.drivers.dds.topics import domain_id
from onboard.policy.manifest import manifest_path
from onboard.values.errors import InputError, OnboardError

ANY_PORT = 9
HEAD = "# Written by `onboard-hil target`, for `onboard run --config` on the target. What it names is beside it.\n"
LOCAL = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Network:
    """How the two machines reach each other.

    address:          of the target; None is this machine, over loopback
    interface:        of this machine, None is the configuration's; target_interface: of the target, None is the same
    """

    address: str | None = None
    interface: str | None = None
    target_interface: str | None = None


def desktop_section(dds: DdsSection, network: Network) -> DdsSection:
    """Return this machine's end of the wire: what is lost is sent again on every network but loopback.

    Raises InputError for a target beyond loopback without an interface.
    """
    interface = network.interface or dds.interface
    if network.address is not None and interface == LOOPBACK:
        raise InputError("--target: over which interface? Say --interface, or dds.interface in the configuration")
    peers = dds.peers if network.address is None else [network.address]
    # Loopback hears only itself: what stands in the file for another network is not meant then.
    peers = [LOCAL] if interface == LOOPBACK else peers
    changes = {"domain": domain_id(dds), "interface": interface, "peers": peers, "resend": interface != LOOPBACK}
    return dds.model_copy(update=changes)


def target_config(given: Config, model: str | None, network: Network, *, depth_noise: bool = True) -> Config:
    """Return what the target is to run: the given robot, with cameras and base here. Raises InputError."""
    ours = desktop_section(given.dds, network)
    peers = [LOCAL] if ours.interface == LOOPBACK else [address_towards(peer) for peer in ours.peers]
    theirs = {"interface": network.target_interface or ours.interface, "peers": peers, "publish_used": True}
    return demo_config(given, model, depth_noise=depth_noise).model_copy(update={"dds": ours.model_copy(update=theirs)})


def address_towards(other: str) -> str:
    """Return our address on the way to another machine; nothing is sent. Raises InputError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((other, ANY_PORT))
        except OSError as error:
            raise InputError(f"--target {other}: there is no way to it: {error.strerror}") from error
        return str(probe.getsockname()[0])


def write_target(config: Config, file: Path) -> Path:
    """Write the target's configuration, and beside it what it names and the target does not have. Raises OnboardError.

    A robot's own mounts and plant and a model from a file are copied; what the package ships is not.
    """
    robot, policy, copies = config.robot, config.policy, []
    changes = {}
    for name, path in (("mounts", robot.mounts), ("plant", robot.plant)):
        if path.resolve() == (DEFAULT_ROBOT / path.name).resolve():
            changes[name] = DEFAULT_ROBOT / path.name
        else:
            copies.append(path)
            changes[name] = Path(path.name)
    if not is_name(policy.model):
        model = Path(policy.model)
        copies += [model, manifest_path(model), *model.parent.glob(f"{model.name}.data")]
        policy = policy.model_copy(update={"model": model.name})
    record = config.record.model_copy(update={"directory": Path("recordings")})
    portable = config.model_copy(update={"robot": robot.model_copy(update=changes), "policy": policy, "record": record})
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(as_toml(portable, HEAD, stated_only=True), encoding="utf-8")
        for path in copies:
            if path.resolve() != (file.parent / path.name).resolve():
                shutil.copy2(path, file.parent / path.name)
    except OSError as error:
        raise OnboardError(f"{error.filename or file}: cannot be written: {error.strerror}") from error
    return file


def run_line(file: Path) -> str:
    """Return the command to type on the target."""
    return f"onboard run --config {shlex.quote(str(file))}"
