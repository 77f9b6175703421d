"""DDS Security: the keystore, and on a Cyclone that has the plugins who can send and read with it, and who cannot."""

from __future__ import annotations

import datetime
import subprocess
import sys
from contextlib import ExitStack

import pytest

pytest.importorskip("cryptography", reason="not installed: pip install 'onboard[secure]'")

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from cyclonedds.__library__ import in_wheel
from typer.testing import CliRunner

from onboard.__main__ import app
from onboard.commands.security.secure_setup import ROLES, make_keystore
from onboard.config.config import Config, DdsSection, ScanSection, load_config
from onboard.drivers.dds import domain
from onboard.drivers.dds.domain import cyclone_xml
from onboard.drivers.dds.participant import Wire
from onboard.drivers.dds.security import FILES, check_enclave
from onboard.values.errors import ConfigError, DriverError, InputError
from tests.rigs.network.loopback import DOMAIN
from tests.rigs.network.secure_peer import PYTHON, SCRIPT, WHOLE, environment

NOW = datetime.datetime.now(datetime.timezone.utc)
CONFIG = Config(dds=DdsSection(domain=DOMAIN))
RECEIVED_S = 30.0
plugins = pytest.mark.skipif(
    not WHOLE.exists(), reason="no Cyclone with security plugins here: `make test` prepares .venv-secure"
)


@pytest.fixture(scope="module")
def keystore(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keystore")
    make_keystore(folder, CONFIG, NOW)
    return folder


def enclave(keystore, name):
    return keystore / "enclaves" / name


# ---- the keystore -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ROLES)
def test_a_role_has_all_files_and_a_key_that_only_its_owner_reads(keystore, name):
    check_enclave(enclave(keystore, name))
    assert (enclave(keystore, name) / "key.pem").stat().st_mode & 0o777 == 0o600


def test_private_folders_are_closed(keystore):
    assert (keystore / "private").stat().st_mode & 0o777 == 0o700
    assert (keystore / "private" / "ca.key.pem").stat().st_mode & 0o777 == 0o600


def test_what_is_there_is_left_alone_and_what_is_missing_is_made(keystore):
    before = (enclave(keystore, "base") / "key.pem").read_bytes()
    (enclave(keystore, "viewer") / "permissions.p7s").unlink()
    assert list(make_keystore(keystore, CONFIG, NOW)) == ["viewer"]
    assert (enclave(keystore, "base") / "key.pem").read_bytes() == before


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(tmp_path, name):
    make_keystore(tmp_path / "keys", CONFIG, NOW)
    (tmp_path / "keys/enclaves/robot" / name).unlink()
    with pytest.raises(ConfigError, match=rf"dds.security: there is no .*{name}"):
        check_enclave(tmp_path / "keys/enclaves/robot")


def test_a_key_that_others_may_read_is_refused(tmp_path):
    make_keystore(tmp_path / "keys", CONFIG, NOW)
    (tmp_path / "keys/enclaves/robot/key.pem").chmod(0o640)
    with pytest.raises(ConfigError, match="can be read by others"):
        check_enclave(tmp_path / "keys/enclaves/robot")


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match="holds no keystore"):
        make_keystore(tmp_path, CONFIG, NOW)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_damaged_key_and_one_of_another_kind_are_refused(tmp_path):
    make_keystore(tmp_path / "keys", CONFIG, NOW)
    (tmp_path / "keys/private/ca.key.pem").write_text("no key")
    with pytest.raises(InputError, match="no certificate authority"):
        make_keystore(tmp_path / "keys", CONFIG, NOW)
    plain = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (tmp_path / "keys/private/ca.key.pem").write_bytes(ed25519.Ed25519PrivateKey.generate().private_bytes(*plain))
    with pytest.raises(InputError, match="must be an elliptic curve key"):
        make_keystore(tmp_path / "keys", CONFIG, NOW)


def test_only_the_robot_may_write_commands():
    assert [name for name, role in ROLES.items() if "cmd_vel" in role.writes] == ["robot"]


def test_permissions_follow_namespace_remapping_and_scans(tmp_path):
    section = DdsSection(domain=DOMAIN, namespace="rosie", remap={"odom": "/wheels"})
    make_keystore(tmp_path / "k", Config(dds=section, scan=ScanSection(topic="laser")), NOW)
    text = (tmp_path / "k/enclaves/robot/permissions.xml").read_text()
    for topic in ("rt/rosie/cmd_vel", "rt/wheels", "rt/rosie/laser", "rt/rosie/*/depth/image", f"<id>{DOMAIN}</id>"):
        assert topic in text


def test_the_command_says_what_to_do(tmp_path):
    done = CliRunner().invoke(app, ["secure-setup", str(tmp_path / "k")])
    assert done.exit_code == 0
    assert f'dds.security = "{tmp_path / "k/enclaves/robot"}"' in done.output
    assert "off the robot" in done.output


def test_the_configuration_names_the_folder_from_its_own_place(tmp_path):
    (tmp_path / "robot.toml").write_text('[dds]\nsecurity = "keys/enclaves/robot"\n')
    assert load_config(tmp_path / "robot.toml").dds.security == tmp_path / "keys/enclaves/robot"


def test_without_keys_nothing_of_security_is_set():
    assert "Security" not in cyclone_xml(DdsSection())


def test_a_library_that_does_not_know_a_setting_is_not_given_it(monkeypatch):
    """The one with the plugins (0.10) refuses what the wheel's (11.0) needs beside Fast DDS."""
    monkeypatch.setattr(domain, "BINDING", 11)
    assert "Compatibility" in cyclone_xml(DdsSection())
    monkeypatch.setattr(domain, "BINDING", 0)
    assert "Compatibility" not in cyclone_xml(DdsSection())


@pytest.mark.skipif(not in_wheel, reason="this Cyclone is not the wheel's: it may have plugins")
def test_the_wheel_has_no_plugins_and_says_so_instead_of_speaking_in_the_clear(keystore):
    script = (
        "import sys\nfrom pathlib import Path\nfrom onboard.config.config import DdsSection\n"
        "from onboard.drivers.dds.participant import Wire\nfrom onboard.values.errors import DriverError\n"
        f"try:\n    Wire(DdsSection(domain={DOMAIN}, security=Path({str(enclave(keystore, 'robot'))!r})))\n"
        "except DriverError as error:\n    sys.stdout.write(str(error))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert "security plugins, which the wheel does not have" in done.stdout


# ---- with the plugins ---------------------------------------------------------------------------------------------


class Peers:
    """Participants in processes of their own, all on one domain."""

    def __init__(self):
        self._held = ExitStack()

    def start(self, folder, verb, value=0.0):
        command = [PYTHON, SCRIPT, DOMAIN, folder, verb, value]
        process = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
        )
        self._held.callback(process.communicate)
        self._held.callback(process.kill)
        return process, process.stdout.readline().strip()

    def close(self):
        self._held.close()


@pytest.fixture
def peers():
    started = Peers()
    yield started
    started.close()


def values(reader):
    """Return what a reader heard, once its input has ended."""
    received, _ = reader.communicate("\n", timeout=RECEIVED_S)
    return {float(line) for line in received.split()}


@plugins
def test_who_has_no_certificate_can_neither_send_nor_read(keystore, peers):
    secured, plain = peers.start(enclave(keystore, "base"), "read"), peers.start("-", "read")
    robot = peers.start(enclave(keystore, "robot"), "write", 1.0)
    stranger = peers.start("-", "write", 2.0)
    assert {secured[1], plain[1], robot[1], stranger[1]} == {"ready"}
    assert secured[0].stdout.readline() == "1.0\n", "with a certificate it works"
    assert plain[0].stdout.readline() == "2.0\n", "the strangers among themselves are heard"
    assert values(secured[0]) == set(), "nothing but the robot's word"
    assert values(plain[0]) == set(), "nothing of the robot's"


@plugins
def test_a_certificate_of_another_authority_is_none(keystore, peers, tmp_path):
    make_keystore(tmp_path / "forged", CONFIG, NOW)
    secured = peers.start(enclave(keystore, "base"), "read")
    forger = peers.start(tmp_path / "forged/enclaves/robot", "write", 2.0)
    assert forger[1] == "ready"
    peers.start(enclave(keystore, "robot"), "write", 1.0)
    assert secured[0].stdout.readline() == "1.0\n"
    assert values(secured[0]) == set()


@plugins
@pytest.mark.parametrize(("role", "verb"), [("viewer", "write"), ("operator", "write"), ("base", "write")])
def test_a_role_may_not_do_what_its_permissions_do_not_say(keystore, peers, role, verb):
    assert "cmd_vel cannot be written" in peers.start(enclave(keystore, role), verb)[1]


@plugins
def test_permissions_that_were_changed_are_refused(tmp_path, peers):
    make_keystore(tmp_path / "keys", CONFIG, NOW)
    signed = tmp_path / "keys/enclaves/viewer/permissions.p7s"
    signed.write_bytes(signed.read_bytes().replace(b"<subscribe>", b"<publish>"))
    assert "cannot be joined with these keys" in peers.start(tmp_path / "keys/enclaves/viewer", "read")[1]


def test_a_secured_wire_needs_its_files(tmp_path):
    with pytest.raises((ConfigError, DriverError), match="secure-setup"):
        Wire(DdsSection(domain=DOMAIN, security=tmp_path))
