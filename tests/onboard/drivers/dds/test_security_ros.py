"""The keystore and ROS 2: what a node brings, what a role lets it have, and how far a real one comes with the keys."""

from __future__ import annotations

import datetime
import os
import re
import subprocess
from fnmatch import fnmatchcase

import pytest

from onboard.commands.security.secure_setup import ROLES, ROS_NODE, make_keystore
from onboard.config.config import Config
from onboard.drivers.dds.discovery import look_around
from tests.rigs.network.loopback import DOMAIN, SECTION
from tests.rigs.network.ros2_peer import LOOPBACK, ROS_PYTHON, Peer
from tests.rigs.network.secure_peer import PYTHON, SCRIPT, WHOLE, environment

pytest.importorskip("cryptography", reason="not installed: pip install 'onboard[secure]'")

NOW = datetime.datetime.now(datetime.timezone.utc)
LOOK_S = 3.0
WAIT_S = 60.0
ros = pytest.mark.skipif(
    ROS_PYTHON is None, reason="no ROS 2 here: `make test` prepares .venv-ros; or set ONBOARD_ROS_PYTHON"
)
plugins = pytest.mark.skipif(
    not WHOLE.exists(), reason="no Cyclone with security plugins here: `make test` prepares .venv-secure"
)


@pytest.fixture(scope="module")
def keystore(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keystore")
    make_keystore(folder, Config(dds=SECTION), NOW)
    return folder


def allowed(keystore, role, verb, topic):
    """Return whether the permissions of a role name a topic, as on the wire, for "publish" or "subscribe"."""
    text = (keystore / "enclaves" / role / "permissions.xml").read_text()
    listed = re.search(f"<{verb}>(.*?)</{verb}>", text, re.DOTALL)
    return any(fnmatchcase(topic, one) for one in re.findall("<topic>(.*?)</topic>", listed[1] if listed else ""))


@ros
def test_all_ends_that_a_node_brings_are_in_its_permissions(keystore):
    """A node that does a base's work: everything that it writes and reads, its own services and log among them."""
    node = Peer(DOMAIN)
    try:
        node.subscribe("/cmd_vel", "geometry_msgs/msg/Twist")
        node.tell(op="publish", topic="/odom", type="nav_msgs/msg/Odometry", fields={}, qos="default")
        graph = look_around(SECTION, LOOK_S)
    finally:
        node.close()
    ends = {
        (
            "publish" if endpoint.writes else "subscribe",
            f"rt{endpoint.topic}" if endpoint.topic.startswith("/") else endpoint.topic,
        )
        for endpoint in graph.endpoints
    }
    assert {("publish", "rt/odom"), ("subscribe", "rt/cmd_vel"), ("publish", "rt/rosout")} <= ends
    assert {end for end in ends if not allowed(keystore, "base", *end)} == set()


@pytest.mark.parametrize("role", [name for name in ROLES if name != "robot"])
def test_no_role_may_call_a_service(keystore, role):
    assert not allowed(keystore, role, "publish", "rq/base/set_parametersRequest")
    assert not allowed(keystore, role, "subscribe", "rr/base/set_parametersReply")


def test_the_runtime_brings_no_node_and_may_be_none(keystore):
    assert not [name for name in ROS_NODE.writes if allowed(keystore, "robot", "publish", name)]


#   topic on the wire                   what a base may
NODE_ENDS = [
    ("ros_discovery_info",              "write read"),
    ("rt/rosout",                       "write"),
    ("rt/parameter_events",             "write read"),
    ("rr/base/get_parametersReply",     "write"),
    ("rq/base/get_parametersRequest",   "read"),
    ("rt/odom",                         "write"),
    ("rt/cmd_vel",                      "read"),
    ("rt/goal_pose",                    ""),
]  # fmt: skip


@plugins
def test_the_plugins_take_the_permissions_at_their_word(keystore):
    command = [PYTHON, SCRIPT, DOMAIN, keystore / "enclaves" / "base", "ends", *(name for name, _ in NODE_ENDS)]
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=WAIT_S, check=True, env=environment()
    )
    assert done.stdout.splitlines() == [f"{name} {may}".strip() for name, may in NODE_ENDS]


@ros
def test_a_node_finds_its_keys_and_refuses_to_speak_without_plugins(keystore):
    """The wheels of ROS 2 at hand have a Fast DDS without security: so nothing more of a node can be shown here."""
    environment = {
        "ROS_SECURITY_ENABLE": "true",
        "ROS_SECURITY_STRATEGY": "Enforce",
        "ROS_SECURITY_KEYSTORE": str(keystore),
        "ROS_SECURITY_ENCLAVE_OVERRIDE": "/base",
        "ROS_DOMAIN_ID": str(DOMAIN),
    }
    done = subprocess.run(
        [str(ROS_PYTHON), "-c", "import rclpy; rclpy.init(); rclpy.create_node('base')"],
        env={**os.environ, **LOOPBACK, **environment}, capture_output=True, text=True, timeout=WAIT_S, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert f"Found security directory: {keystore / 'enclaves' / 'base'}" in done.stdout + done.stderr
    if "doesn't have the security libraries" not in done.stderr:
        pytest.fail(f"this Fast DDS has the plugins: have the node speak\n{done.stderr}")
