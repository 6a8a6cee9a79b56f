"""Certificates and secret keys as files, by the package ``cryptography``, which is loaded when first needed."""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from veilnet._core.errors import InvalidRequest
from veilnet._core.extras import missing_extra
from veilnet.io._atomic import moved_into_place

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey


class _Library:
    """The parts of the package ``cryptography`` that are used here."""

    def __init__(self) -> None:
        from cryptography import x509
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        self.x509, self.hashes, self.serialization, self.ec = x509, hashes, serialization, ec
        self.InvalidSignature = InvalidSignature


def library() -> Any:
    """The package, or the line that installs it."""
    try:
        return _Library()
    except ImportError:
        raise missing_extra("a live network needs its packages", "live") from None


def as_name(common_name: str) -> x509.Name:
    """A name of nothing but a common name."""
    parts = library()
    common = parts.x509.oid.NameOID.COMMON_NAME
    name: x509.Name = parts.x509.Name([parts.x509.NameAttribute(common, common_name)])
    return name


def common_name_of(certificate: x509.Certificate) -> str:
    """The common name in a certificate; empty if there is not exactly one."""
    found = certificate.subject.get_attributes_for_oid(library().x509.oid.NameOID.COMMON_NAME)
    return str(found[0].value) if len(found) == 1 else ""


def as_host(given: str) -> Any:
    """A host in a certificate: an address or a DNS name."""
    x509 = library().x509
    try:
        return x509.IPAddress(ipaddress.ip_address(given))
    except ValueError:
        pass
    labels = given.split(".")
    good = all(
        0 < len(label) <= 63 and label.isascii() and label.replace("-", "").replace("_", "").isalnum()
        for label in labels
    )
    if not good or len(given) > 253:
        raise InvalidRequest(
            f"--host: expected broker.example or 192.0.2.7, without a port, found {given[:80]!r}"
        )
    return x509.DNSName(given.lower())


def hosts_of(certificate: x509.Certificate) -> set[str]:
    """The hosts that a certificate is for."""
    x509 = library().x509
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    return {str(each.value) for each in names}


def key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    """What a key is for: to sign certificates, or to prove who one is."""
    usage: x509.KeyUsage = library().x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
    return usage


def read_certificate(path: Path) -> x509.Certificate:
    """The certificate in a file."""
    try:
        found: x509.Certificate = library().x509.load_pem_x509_certificate(path.read_bytes())
    except ValueError:
        raise InvalidRequest(f"{path}: not readable as a certificate in PEM; is it the right file?") from None
    return found


def read_secret(path: Path) -> EllipticCurvePrivateKey:
    """The secret key in a file."""
    try:
        key: EllipticCurvePrivateKey = library().serialization.load_pem_private_key(
            path.read_bytes(), password=None
        )
    except (ValueError, TypeError):
        raise InvalidRequest(
            f"{path}: not readable as a secret key in PEM; bring the right one back"
        ) from None
    return key


def as_pem(certificate: x509.Certificate) -> bytes:
    """A certificate as it stands in a file."""
    return certificate.public_bytes(library().serialization.Encoding.PEM)


def make_private_folder(folder: Path) -> None:
    """A folder that its owner alone may enter, unless it is there already."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)


def write_secret(path: Path, key: EllipticCurvePrivateKey) -> None:
    """A secret key, readable by its owner alone from the first byte on."""
    serialization = library().serialization
    content = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    os.close(moved_into_place(path, content, 0o600))
