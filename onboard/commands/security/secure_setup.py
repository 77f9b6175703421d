"""`onboard secure-setup`: keys and permissions, so that only processes with a certificate send to the robot or read it.

Each role may write and read only the topics in the table below. `dds.security` names the folder of one role; every
process of the domain then needs a role of the same keystore.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import pwd
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from xml.sax.saxutils import escape

import typer

from onboard.assembly.robot import lidar_rows
from onboard.commands.cli import STANDARD_OUTPUT, ConfigOption, JsonOption, check_json_target, write_json
from onboard.commands.security.keystore import (
    CA_CERTIFICATE,
    CA_KEY,
    GOVERNANCE,
    PRIVATE_FILE,
    PUBLIC_FILE,
    Authority,
    write,
)
from onboard.config.config import DEFAULT_ROBOT, Config, load_config
from onboard.drivers.dds.topics import CAMERA, TOPICS, dds_topic, domain_id
from onboard.values.errors import InputError, naming

ENCLAVES = "enclaves"
SERVICE_USER = "onboard"
"""The service's user (systemd/onboard-sysusers.conf)."""
ANY = "*"
EACH = "each_camera"
OURS = "robot"
"""The runtime's own role."""

SENT = (
    "cmd_vel", "scan", "limits_scan", "state", "drive", "diagnostics", "used", "tf", "tf_static",
    "reasons", "map", "path", "plan", "arc", "footprint", "markers",
    f"{CAMERA}/depth/camera_info", "color/camera_info",
)  # fmt: skip
"""Topics that the runtime sends; it reads all others of `topics.TOPICS`."""

TELEOP = "cmd_vel_teleop"
READ = tuple(row.name for row in TOPICS if row.name not in SENT)
ALL = tuple(row.name for row in TOPICS)


@dataclass(frozen=True, slots=True)
class Role:
    """Topics that a role may write and read, by our names."""

    writes: tuple[str, ...]
    reads: tuple[str, ...]


#   role        may write                                             may read
ROLES: Mapping[str, Role] = {
    OURS: Role(SENT, READ),
    "base": Role(("odom", "obstacle", "e_stop", "battery"), ("cmd_vel",)),
    "sensors": Role(("amcl_pose", "obstacle", "speed_limit", f"{CAMERA}/depth/image", "color/image"), ALL),
    "operator": Role(
        ("initialpose", "goal_pose", "goals", "cancel", "pause", "e_stop", "page_stop", "speed_limit", TELEOP), ALL
    ),
    "viewer": Role((), ALL),
}

ROS_NODE = Role(
    writes=("ros_discovery_info", "rt/rosout", "rt/parameter_events", "rr/*Reply"),
    reads=("ros_discovery_info", "rt/parameter_events", "rq/*Request"),
)
"""Additional topics of every ROS 2 node, by their names on the wire, for all roles but the runtime's. A role may offer
services but not call them, because calls set a node's parameters."""


def secure_command(folder: Path, config: Path, user: str = SERVICE_USER) -> list[str]:
    """Complete a keystore; return lines for the operator, with the remaining manual steps.

    As root, gives the robot's key to the service's user. Raises as `make_keystore`.
    """
    made = make_keystore(folder, load_config(config), datetime.datetime.now(datetime.timezone.utc))
    robot = (folder / ENCLAVES / OURS).resolve()
    owner = give_key(robot, user)
    return [
        *(f"{name}: {folder / ENCLAVES / name} {'made' if name in made else 'was there'}" for name in ROLES),
        f'robot: set dds.security = "{robot}"; only {owner} can read its key, so run it as that user',
        f"then move {folder / CA_KEY} off the robot: anyone who has it can create members",
    ]


def give_key(enclave: Path, user: str) -> str:
    """As root, give a role's key to a user of this machine, if the user exists; return the key's owner.

    Raises InputError if the owner cannot be changed.
    """
    key = enclave / "key.pem"
    try:
        if os.geteuid() == 0:
            with contextlib.suppress(KeyError):  # a machine that does not know the user
                os.chown(key, pwd.getpwnam(user).pw_uid, -1, follow_symlinks=False)
        return key.owner()
    except OSError as error:
        raise InputError(f"{key}: its owner cannot be set to {user}: {error.strerror}") from error
    except KeyError:  # a user without a name
        return f"user {key.stat().st_uid}"


def make_keystore(folder: Path, config: Config, now: datetime.datetime) -> dict[str, Path]:
    """Complete a keystore; return the folder of each new role. Existing roles stay unchanged.

    Raises InputError if the folder holds other files or cannot be written, MissingExtraError.
    """
    with naming(folder):
        if folder.exists() and not (folder / CA_CERTIFICATE).exists() and any(folder.iterdir()):
            raise InputError(f"{folder}: is not empty and holds no keystore; choose an empty folder")
    authority = Authority(folder, now)
    domain, scans = domain_id(config.dds), _scan_topics(config)
    if not (folder / GOVERNANCE).exists():
        text = governance(domain)
        write((folder / GOVERNANCE).with_suffix(".xml"), text.encode(), PUBLIC_FILE)
        write(folder / GOVERNANCE, authority.sign(text), PUBLIC_FILE)
    made = {}
    for name, role in ROLES.items():
        enclave = folder / ENCLAVES / name
        if (enclave / "permissions.p7s").exists():
            continue
        writes, reads = (_expressions(config, names) for names in (role.writes, role.reads))
        writes += scans if name == "sensors" else []
        reads += scans if name == OURS else []
        if name != OURS:
            writes, reads = [*writes, *ROS_NODE.writes], [*reads, *ROS_NODE.reads]
        _make_enclave(authority, enclave, permissions(name, domain, writes, reads, now, authority.until()))
        made[name] = enclave
    return made


def _make_enclave(authority: Authority, enclave: Path, text: str) -> None:
    public = (authority.folder / CA_CERTIFICATE).read_bytes()
    key, certificate = authority.member(enclave.name)
    write(enclave / "identity_ca.cert.pem", public, PUBLIC_FILE)
    write(enclave / "permissions_ca.cert.pem", public, PUBLIC_FILE)
    write(enclave / "governance.p7s", (authority.folder / GOVERNANCE).read_bytes(), PUBLIC_FILE)
    write(enclave / "cert.pem", certificate, PUBLIC_FILE)
    write(enclave / "key.pem", key, PRIVATE_FILE)
    write(enclave / "permissions.xml", text.encode(), PUBLIC_FILE)
    write(enclave / "permissions.p7s", authority.sign(text), PUBLIC_FILE)  # last: with it the enclave is whole


def _expressions(config: Config, names: Iterable[str]) -> list[str]:
    """Return topics as permissions name them; a wildcard means all cameras."""
    return [dds_topic(config.dds, name.replace(CAMERA, EACH)).replace(EACH, ANY) for name in names]


def _scan_topics(config: Config) -> list[str]:
    return [dds_topic(config.dds, row) for row in lidar_rows(config).values()]


def governance(domain: int) -> str:
    """Return the rules of a domain: certificates required, everything signed and encrypted."""
    return f"""<?xml version="1.0" encoding="utf-8"?>
<dds xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
 xsi:noNamespaceSchemaLocation="http://www.omg.org/spec/DDS-SECURITY/20170901/omg_shared_ca_governance.xsd">
 <domain_access_rules><domain_rule>
  <domains><id>{domain}</id></domains>
  <allow_unauthenticated_participants>false</allow_unauthenticated_participants>
  <enable_join_access_control>true</enable_join_access_control>
  <discovery_protection_kind>ENCRYPT</discovery_protection_kind>
  <liveliness_protection_kind>ENCRYPT</liveliness_protection_kind>
  <rtps_protection_kind>SIGN</rtps_protection_kind>
  <topic_access_rules><topic_rule>
   <topic_expression>*</topic_expression>
   <enable_discovery_protection>true</enable_discovery_protection>
   <enable_liveliness_protection>true</enable_liveliness_protection>
   <enable_read_access_control>true</enable_read_access_control>
   <enable_write_access_control>true</enable_write_access_control>
   <metadata_protection_kind>ENCRYPT</metadata_protection_kind>
   <data_protection_kind>ENCRYPT</data_protection_kind>
  </topic_rule></topic_access_rules>
 </domain_rule></domain_access_rules>
</dds>
"""


def permissions(
    name: str,
    domain: int,
    writes: Sequence[str],
    reads: Sequence[str],
    since: datetime.datetime,
    until: datetime.datetime,
) -> str:
    """Return the permissions of the certificate with this name; everything else is denied."""
    return f"""<?xml version="1.0" encoding="utf-8"?>
<dds xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
 xsi:noNamespaceSchemaLocation="http://www.omg.org/spec/DDS-SECURITY/20170901/omg_shared_ca_permissions.xsd">
 <permissions><grant name="{escape(name)}">
  <subject_name>CN={escape(name)}</subject_name>
  <validity><not_before>{_moment(since - datetime.timedelta(days=1))}</not_before>\
<not_after>{_moment(until)}</not_after></validity>
  <allow_rule>
   <domains><id>{domain}</id></domains>{_rule("publish", writes)}{_rule("subscribe", reads)}
  </allow_rule>
  <default>DENY</default>
 </grant></permissions>
</dds>
"""


def _rule(verb: str, topics: Sequence[str]) -> str:
    if not topics:
        return ""
    listed = "".join(f"<topic>{escape(topic)}</topic>" for topic in topics)
    return f"\n   <{verb}><topics>{listed}</topics></{verb}>"


def _moment(moment: datetime.datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S")


def secure_setup(
    folder: Annotated[Path, typer.Argument(help="Folder of the keystore; created if needed.")],
    config: ConfigOption = None,
    json_file: JsonOption = None,
) -> None:
    """Create keys, certificates and permissions for DDS Security, one folder per role. Existing files are kept."""
    check_json_target(json_file)
    lines = secure_command(folder, config or DEFAULT_ROBOT / "onboard.toml")
    write_json(json_file, {"roles": {name: str(folder / ENCLAVES / name) for name in ROLES}, "told": lines})
    if json_file != STANDARD_OUTPUT:
        sys.stdout.writelines(f"{line}\n" for line in lines)
