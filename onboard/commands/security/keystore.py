"""Keys, certificates and signed documents of DDS Security, in the layout of SROS 2. The only file with `cryptography`.

public/   ca.cert.pem                              public certificate
private/  ca.key.pem                               signs new members: keep it off the robot
enclaves/ governance.xml, governance.p7s           rules of the domain
enclaves/ROLE/ cert.pem, key.pem, permissions.xml, permissions.p7s, and copies of the three public files
"""

from __future__ import annotations

import datetime
import os
from pathlib import Path

from onboard.values.errors import InputError, MissingExtraError, naming

try:
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import pkcs7
    from cryptography.x509.oid import NameOID
except ImportError:
    x509 = None  # type: ignore[assignment]

YEARS = 10
DAYS_PER_YEAR = 365
PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600
PUBLIC_FOLDER, PUBLIC_FILE = 0o755, 0o644
CA_NAME = "onboard CA"

CA_CERTIFICATE = Path("public/ca.cert.pem")
CA_KEY = Path("private/ca.key.pem")
GOVERNANCE = Path("enclaves/governance.p7s")


def require_cryptography() -> None:
    """Raise MissingExtraError when `cryptography` is not installed."""
    if x509 is None:
        raise MissingExtraError("cryptography", "secure")


class Authority:
    """The certificate authority of one robot's domain: creates members and signs documents."""

    def __init__(self, folder: Path, now: datetime.datetime) -> None:
        """Load the authority from the folder, or create a new one.

        Raises InputError if its files cannot be read or written, are damaged, do not belong together, or if its key
        was moved away.
        """
        require_cryptography()
        self.folder, self._now = folder, now
        try:
            if not (folder / CA_CERTIFICATE).exists():
                self._make()
            elif not (folder / CA_KEY).exists():
                raise InputError(
                    f"{folder / CA_KEY}: is missing; no members can be created without it; restore it from a backup, "
                    "or make a new keystore in an empty folder"
                )
            key = serialization.load_pem_private_key((folder / CA_KEY).read_bytes(), None)
            self._certificate = x509.load_pem_x509_certificate((folder / CA_CERTIFICATE).read_bytes())
            self._certificate.verify_directly_issued_by(self._certificate)
        except InvalidSignature as error:
            raise InputError(f"{folder / CA_CERTIFICATE}: is damaged: it is not signed by itself") from error
        except (OSError, ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion) as error:
            raise InputError(f"{folder}: no certificate authority: {' '.join(str(error).split())}") from error
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise InputError(f"{folder / CA_KEY}: must be an elliptic curve key")
        if key.public_key() != self._certificate.public_key():
            raise InputError(f"{folder / CA_KEY}: is not the key of {folder / CA_CERTIFICATE}")
        self._key = key

    def sign(self, document: str) -> bytes:
        """Return a signed document in DDS Security's format (S/MIME with readable text)."""
        builder = pkcs7.PKCS7SignatureBuilder().set_data(document.encode())
        signed = builder.add_signer(self._certificate, self._key, hashes.SHA256())
        options = [pkcs7.PKCS7Options.Text, pkcs7.PKCS7Options.DetachedSignature]
        return signed.sign(serialization.Encoding.SMIME, options)

    def member(self, name: str) -> tuple[bytes, bytes]:
        """Return key and certificate of a new member, PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._certify(key.public_key(), name, self._certificate.subject, self._key, authority=False)
        return _key_pem(key), certificate.public_bytes(serialization.Encoding.PEM)

    def until(self) -> datetime.datetime:
        """Return the end of validity of new certificates."""
        return self._now + datetime.timedelta(days=YEARS * DAYS_PER_YEAR)

    def _make(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = _named(CA_NAME)
        certificate = self._certify(key.public_key(), CA_NAME, issuer, key, authority=True)
        make_folder(self.folder, PUBLIC_FOLDER)
        write(self.folder / CA_KEY, _key_pem(key), PRIVATE_FILE)
        write(self.folder / CA_CERTIFICATE, certificate.public_bytes(serialization.Encoding.PEM), PUBLIC_FILE)

    def _certify(
        self,
        key: ec.EllipticCurvePublicKey,
        name: str,
        issuer: x509.Name,
        signer: ec.EllipticCurvePrivateKey,
        *,
        authority: bool,
    ) -> x509.Certificate:
        builder = x509.CertificateBuilder(issuer, _named(name), key, x509.random_serial_number())
        builder = builder.not_valid_before(self._now - datetime.timedelta(days=1)).not_valid_after(self.until())
        constraints = x509.BasicConstraints(ca=authority, path_length=0 if authority else None)
        return builder.add_extension(constraints, critical=True).sign(signer, hashes.SHA256())


def make_folder(path: Path, mode: int) -> None:
    """Make a folder with this mode, whatever the umask; an existing folder stays unchanged. Raises InputError."""
    with naming(path, "created"):
        if not path.is_dir():
            path.mkdir(mode=PRIVATE_FOLDER, parents=True)
            path.chmod(mode)


def write(path: Path, content: bytes, mode: int) -> None:
    """Write a file that only its owner can read, then set its mode. Raises InputError.

    A missing folder is created as public as the file.
    """
    make_folder(path.parent, PRIVATE_FOLDER if mode == PRIVATE_FILE else PUBLIC_FOLDER)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    with naming(path, "written"), open(os.open(path, flags, PRIVATE_FILE), "wb") as file:
        file.write(content)
        os.fchmod(file.fileno(), mode)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
