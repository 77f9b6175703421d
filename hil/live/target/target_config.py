"""Makes the two configurations of a measurement: the DDS section of this machine and the target's file."""

from __future__ import annotations

import shlex
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path

from hil.live.demo import demo_config
from onboard.config.config import DEFAULT_ROBOT, Config, DdsSection
from onboard.config.pretrained import is_name
from onboard.config.toml_text import as_toml
from onboard.drivers.dds.domain import LOOPBACK
from onboard.drivers.dds.topics import domain_id
from onboard.policy.manifest import manifest_path
from onboard.values.errors import InputError, OnboardError

ANY_PORT = 9
HEAD = "# Written by `onboard-hil target`, for `onboard run --config` on the target. Its other files are next to it.\n"
LOCAL = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Network:
    """Network between this machine and the target.

    address:          address of the target; None is this machine, over loopback
    interface:        interface of this machine; None is the interface of the configuration
    target_interface: interface of the target; None is the same name as on this machine
    """

    address: str | None = None
    interface: str | None = None
    target_interface: str | None = None


def desktop_section(dds: DdsSection, network: Network) -> DdsSection:
    """Return this machine's DDS section. DDS resends lost samples on every network except loopback.

    Raises InputError if the target has an address, but the interface is loopback.
    """
    interface = network.interface or dds.interface
    if network.address is not None and interface == LOOPBACK:
        raise InputError("--target: over which interface? Set --interface, or dds.interface in the configuration")
    peers = dds.peers if network.address is None else [network.address]
    # Loopback reaches only this machine. The peers in the file belong to another network, so they are not used.
    peers = [LOCAL] if interface == LOOPBACK else peers
    changes = {"domain": domain_id(dds), "interface": interface, "peers": peers, "resend": interface != LOOPBACK}
    return dds.model_copy(update=changes)


def target_config(given: Config, model: str | None, network: Network) -> Config:
    """Return the target's configuration: the given robot, with cameras and base on this machine. Raises InputError.

    model: as for `demo_config`
    """
    ours = desktop_section(given.dds, network)
    peers = [LOCAL] if ours.interface == LOOPBACK else [address_towards(peer) for peer in ours.peers]
    theirs = {"interface": network.target_interface or ours.interface, "peers": peers}
    made = demo_config(given, model)
    return made.model_copy(update={"dds": ours.model_copy(update=theirs)})


def address_towards(other: str) -> str:
    """Return this machine's address on the route to the address `other`. It sends no packet.

    Raises InputError if no route exists.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((other, ANY_PORT))
        except OSError as error:
            raise InputError(f"--target {other}: cannot be reached: {error.strerror}") from error
        return str(probe.getsockname()[0])


def write_target(config: Config, file: Path) -> Path:
    """Write the target's configuration to `file`, and copy the files that it needs next to it. Return `file`.

    It copies custom mounts, a custom plant, and a model given as a file. It does not copy files of the package.
    Raises OnboardError if a file cannot be written.
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
    """Return the command that the operator types on the target."""
    return f"onboard run --config {shlex.quote(str(file))}"
