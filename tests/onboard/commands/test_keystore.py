"""Who owns a keystore's files and who can come to them: made by root, used by the service's user."""

from __future__ import annotations

import datetime
import os
import pwd
import ssl
from contextlib import contextmanager

import pytest

from onboard.commands.security.keystore import Authority
from onboard.commands.security.secure_setup import ROLES, make_keystore, secure_command
from onboard.config.config import DEFAULT_ROBOT, Config
from onboard.drivers.dds.security import FILES, check_enclave
from onboard.values.errors import ConfigError, InputError

pytest.importorskip("cryptography", reason="not installed: pip install 'onboard[secure]'")

NOW = datetime.datetime.now(datetime.timezone.utc)
CONFIG = DEFAULT_ROBOT / "onboard.toml"
NOBODY = "nobody"
NAMELESS = 54321
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty working folder that others may come to by relative paths; those above it may be closed to them."""
    tmp_path.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    return tmp_path.relative_to(tmp_path)


@contextmanager
def become(user_id):
    """Be another user, without root's rights, for a while."""
    os.seteuid(user_id)
    try:
        yield
    finally:
        os.seteuid(0)


def nobody():
    return become(pwd.getpwnam(NOBODY).pw_uid)


@pytest.fixture(params=[0o022, 0o077])
def umask(request):
    before = os.umask(request.param)
    yield
    os.umask(before)


@as_root
def test_made_by_root_the_robots_role_is_usable_by_the_services_user(here, umask):
    expected = secure_command(here / "keys", CONFIG, NOBODY)
    assert any(f"only {NOBODY} can read its key" in line for line in expected)
    with nobody():
        check_enclave(here / "keys/enclaves/robot")
        for private in ("private/ca.key.pem", *(f"enclaves/{name}/key.pem" for name in ROLES if name != "robot")):
            with pytest.raises(PermissionError):
                (here / "keys" / private).read_bytes()
        with pytest.raises(PermissionError):
            (here / "keys/enclaves/robot/permissions.p7s").open("wb")


@as_root
def test_a_key_of_a_user_that_the_machine_does_not_know_stays_roots(here):
    expected = secure_command(here / "keys", CONFIG, "no-such-user")
    assert any("only root can read its key" in line for line in expected)
    os.chown(here / "keys/enclaves/robot/key.pem", NAMELESS, -1)
    assert any(f"only user {NAMELESS} can" in line for line in secure_command(here / "keys", CONFIG, "no-such-user"))


@as_root
@pytest.mark.parametrize(("user_id", "name"), [(65534, NOBODY), (NAMELESS, str(NAMELESS))])
@pytest.mark.parametrize("closed", ["", "key.pem"])
def test_a_role_of_another_user_is_refused_in_one_line(here, closed, user_id, name):
    make_keystore(here / "keys", Config(), NOW)
    enclave = here / "keys/enclaves/robot"
    (enclave / closed).chmod(0o600)
    with become(user_id), pytest.raises(ConfigError) as refused:
        check_enclave(enclave)
    file = enclave / (closed or FILES[0])
    assert str(refused.value).startswith(f"dds.security: {file} cannot be read by user {name}: Permission denied; ")


@as_root
@pytest.mark.parametrize("closed", ["keys", "keys/private"])
def test_a_keystore_of_another_user_is_refused_in_one_line(here, closed):
    make_keystore(here / "keys", Config(), NOW)
    (here / closed).chmod(0o700)
    with nobody(), pytest.raises(InputError, match=r"Permission denied$|no certificate authority: .*Permission denied"):
        make_keystore(here / "keys", Config(), NOW)


def test_without_the_authoritys_key_no_other_authority_is_made(here):
    """It was moved away, as the command says to: a second authority in its place would part old roles from new ones."""
    make_keystore(here / "keys", Config(), NOW)
    (here / "keys/private/ca.key.pem").unlink()
    (here / "keys/enclaves/viewer/permissions.p7s").unlink()
    before = (here / "keys/public/ca.cert.pem").read_bytes()
    with pytest.raises(InputError, match=r"ca.key.pem: is missing; no members can be created without it"):
        make_keystore(here / "keys", Config(), NOW)
    assert (here / "keys/public/ca.cert.pem").read_bytes() == before


def test_what_cannot_be_made_is_named(here):
    (here / "file").write_text("no folder")
    with pytest.raises(InputError, match="file"):
        make_keystore(here / "file" / "keys", Config(), NOW)


SUBJECT, CONSTRAINTS = b"\x06\x03\x55\x04\x03\x0c\x0aonboard CA", b"\x06\x03\x55\x1d\x13"
#    of the certificate  in its place                     what is said
DAMAGED = [
    (SUBJECT,     b"\x06\x03\x55\x27\x7c" + SUBJECT[5:], "no certificate authority: "),
    (SUBJECT,     SUBJECT[:-1] + b"B",                    "no certificate authority: Issuer certificate subject"),
    (CONSTRAINTS, CONSTRAINTS[:-1] + b"\x7f",             "ca.cert.pem: is damaged: it is not signed by itself"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "expected"), DAMAGED)
def test_a_damaged_certificate_makes_no_members(here, old, new, expected):
    make_keystore(here / "keys", Config(), NOW)
    file = here / "keys/public/ca.cert.pem"
    before, found, after = ssl.PEM_cert_to_DER_cert(file.read_text()).rpartition(old)
    assert found
    file.write_text(ssl.DER_cert_to_PEM_cert(before + new + after))
    with pytest.raises(InputError, match=expected) as refused:
        Authority(here / "keys", NOW)
    assert "\n" not in str(refused.value)


def test_the_key_of_another_authority_is_refused(here):
    for name in ("keys", "others"):
        make_keystore(here / name, Config(), NOW)
    (here / "keys/private/ca.key.pem").write_bytes((here / "others/private/ca.key.pem").read_bytes())
    with pytest.raises(InputError, match=r"ca.key.pem: is not the key of .*ca.cert.pem$"):
        Authority(here / "keys", NOW)
