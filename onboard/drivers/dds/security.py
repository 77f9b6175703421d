"""DDS Security: Cyclone's settings for a role's folder, checks of its files, and of the loaded plugins."""

from __future__ import annotations

import os
import pwd
from contextlib import nullcontext
from html import escape
from pathlib import Path

from onboard.values.errors import ConfigError

SECURED = "<Security>"
PLUGINS = ("dds_security_auth", "dds_security_crypto", "dds_security_ac")
"""Cyclone's own plugins by library name (`libdds_security_auth.so`); LD_LIBRARY_PATH adds folders."""

NO_PLUGINS = "dds.security needs a libddsc with security plugins, which the wheel does not have (SECURITY.md)"
FILES = ("identity_ca.cert.pem", "cert.pem", "key.pem", "permissions_ca.cert.pem", "governance.p7s", "permissions.p7s")
FOREIGN_BITS = 0o077


def security_xml(enclave: Path | None) -> str:
    """Return Cyclone's settings for a role's folder; "" without a folder."""
    if enclave is None:
        return ""
    identity, certificate, key, permissions_ca, governance, permissions = (
        f"file:{escape(str(enclave / name))}" for name in FILES
    )
    authentication, crypto, access = (
        f'<Library path="{plugin}" initFunction="init_{verb}" finalizeFunction="finalize_{verb}"/>'
        for plugin, verb in zip(PLUGINS, ("authentication", "crypto", "access_control"), strict=True)
    )
    return (
        f"{SECURED}<Authentication>{authentication}<IdentityCA>{identity}</IdentityCA>"
        f"<IdentityCertificate>{certificate}</IdentityCertificate><PrivateKey>{key}</PrivateKey></Authentication>"
        f"<Cryptographic>{crypto}</Cryptographic>"
        f"<AccessControl>{access}<PermissionsCA>{permissions_ca}</PermissionsCA><Governance>{governance}</Governance>"
        f"<Permissions>{permissions}</Permissions></AccessControl></Security>"
    )


def check_enclave(enclave: Path | None) -> None:
    """Raise ConfigError if a file of a role's folder is missing or unreadable, or if other users may read its key."""
    for name in FILES if enclave is not None else ():
        file = Path(enclave or "") / name
        try:
            found = file.is_file()
            with file.open("rb") if found else nullcontext():
                pass
        except OSError as error:
            raise ConfigError(
                f"dds.security: {file} cannot be read by user {_user()}: {error.strerror}; its folders must be open to "
                "them, its key their own"
            ) from error
        if not found:
            raise ConfigError(f"dds.security: there is no {file}; `onboard secure-setup` creates it")
        if name == "key.pem" and file.stat().st_mode & FOREIGN_BITS:
            raise ConfigError(f"dds.security: {file} can be read by others; chmod 600 it")


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def plugins_loaded() -> bool:
    """Return whether this process has loaded the plugins; without them a participant would not encrypt."""
    loaded = Path("/proc/self/maps").read_text()
    return all(plugin in loaded for plugin in PLUGINS)
