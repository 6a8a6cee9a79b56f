"""Who is who: a certificate authority of the network's own, and a certificate for each party.

Every party gets a folder with all it needs, and nothing else is handed to it::

    keys/authority/        ca.key ca.crt       stays with whoever makes keys
    keys/broker/           ca.crt party.crt party.key (and mosquitto.conf, acl: :mod:`veilnet.live.broker`)
    keys/centre/           ca.crt party.crt party.key
    keys/agents/<agent>/   ca.crt party.crt party.key
    keys/readers/<name>/   ca.crt party.crt party.key

Keys are ECDSA on P-256, which every TLS library knows, and readable by their owner alone. The common name of a
certificate is the party's :func:`~veilnet.live.topics.identity`. Certificates of clients cannot stand for the broker.
"""

from __future__ import annotations

import ipaddress
import os
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from veilnet._core.errors import InvalidRequest, MissingExtra
from veilnet.io._atomic import moved_into_place, write_bytes
from veilnet.live.topics import CENTRE, identity, reader_identity

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

DAYS = 365
_AUTHORITY_DAYS = 3650
_SKEW = timedelta(hours=1)  # clocks of small machines are behind at times
_RENEW = timedelta(days=30)
LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Credentials:
    """The folder of one party: its certificate, its secret key, and the authority it trusts."""

    folder: Path

    @property
    def authority(self) -> Path:
        """The certificate of the authority."""
        return self.folder / "ca.crt"

    @property
    def certificate(self) -> Path:
        """The party's certificate."""
        return self.folder / "party.crt"

    @property
    def key(self) -> Path:
        """The party's secret key."""
        return self.folder / "party.key"

    def identity(self) -> str:
        """The common name in the certificate."""
        return _common_name(_read_certificate(self.certificate))

    def expires(self) -> datetime:
        """Until when the certificate is valid."""
        return _read_certificate(self.certificate).not_valid_after_utc

    def client_context(self) -> ssl.SSLContext:
        """TLS for a client: shows this certificate, and accepts only a broker that the authority vouches for.

        Refuses what the broker would refuse only in the middle of a handshake: files that are missing or belong to
        different keys, and a certificate that is not valid now.
        """
        for file in (self.authority, self.certificate, self.key):
            if not file.is_file():
                raise InvalidRequest(
                    f"{file}: no such file; expected a folder made by 'veilnet live keys', with ca.crt, party.crt "
                    "and party.key"
                )
        found, now = _read_certificate(self.certificate), datetime.now(UTC)
        if not found.not_valid_before_utc <= now <= found.not_valid_after_utc:
            raise InvalidRequest(
                f"{self.certificate}: valid from {found.not_valid_before_utc:%Y-%m-%d %H:%M} to "
                f"{found.not_valid_after_utc:%Y-%m-%d %H:%M} UTC, and it is {now:%Y-%m-%d %H:%M}; set the clock, or "
                "ask for a new one ('veilnet live keys' renews)"
            )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        try:
            context.load_verify_locations(self.authority)
            context.load_cert_chain(self.certificate, self.key)
        except (ssl.SSLError, OSError) as error:
            raise InvalidRequest(
                f"{self.folder}: not usable as certificate and key ({error}); make them anew with 'veilnet live keys'"
            ) from None
        return context


@dataclass(frozen=True)
class KeyFolder:
    """All parties' folders."""

    folder: Path

    @property
    def authority(self) -> Path:
        """The folder of the authority."""
        return self.folder / "authority"

    @property
    def broker(self) -> Credentials:
        """The broker's folder."""
        return Credentials(self.folder / "broker")

    @property
    def centre(self) -> Credentials:
        """The centre's folder."""
        return Credentials(self.folder / "centre")

    def agent(self, name: str) -> Credentials:
        """An agent's folder."""
        return Credentials(self.folder / "agents" / identity(name))

    def reader(self, name: str) -> Credentials:
        """The folder of a program that reads estimates."""
        return Credentials(self.folder / "readers" / reader_identity(name).removeprefix("@"))


@dataclass(frozen=True)
class Made:
    """What :func:`make_keys` did: names of parties with new keys, and of those whose keys were left as they are."""

    keys: KeyFolder
    new: tuple[str, ...]
    kept: tuple[str, ...]


def make_keys(
    folder: Path,
    agents: Sequence[str],
    *,
    hosts: Sequence[str] = LOOPBACK,
    readers: Sequence[str] = (),
    days: int = DAYS,
) -> Made:
    """Keys and certificates of every party, in a folder of their own each.

    hosts: names and addresses by which clients reach the broker. days: how long certificates are valid.

    In a folder that has keys already the authority is kept, and so is every certificate that the authority signed,
    for the same names, with 30 days left (or half of ``days``, where that is less).
    """
    if not hosts:
        raise InvalidRequest("hosts: expected the name or address of the broker, found none")
    if not 1 <= days <= _AUTHORITY_DAYS:
        raise InvalidRequest(f"days: expected 1 to {_AUTHORITY_DAYS}, found {days}")
    for each in hosts:
        _host(each)
    keys = KeyFolder(folder)
    authority = Authority.open(keys.authority)
    parties = [
        ("broker", keys.broker, hosts[0][:64], tuple(hosts)),
        ("centre", keys.centre, CENTRE, ()),
        *((f"agent {name}", keys.agent(name), identity(name), ()) for name in agents),
        *((f"reader {name}", keys.reader(name), reader_identity(name), ()) for name in readers),
    ]
    new, kept = [], []
    for words, where, common_name, names in parties:
        if authority.vouches(where, common_name, names, min(_RENEW, timedelta(days=days) / 2)):
            kept.append(words)
        else:
            authority.issue(where, common_name, names, days=days)
            new.append(words)
    return Made(keys, tuple(new), tuple(kept))


class Authority:
    """A certificate authority: its secret key, and its certificate."""

    def __init__(self, key: EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self.key, self.certificate = key, certificate

    @classmethod
    def open(cls, folder: Path) -> Authority:
        """The authority in a folder; a new one where there is none."""
        secret, public = folder / "ca.key", folder / "ca.crt"
        if secret.exists() != public.exists():
            raise InvalidRequest(
                f"{folder}: expected ca.key and ca.crt, found only one; bring the other back"
            )
        if not secret.exists():
            made = cls._make()
            _private_folder(folder)
            _write_secret(secret, made.key)
            write_bytes(public, _pem(made.certificate))
            return made
        return cls(_read_secret(secret), _read_certificate(public))

    @classmethod
    def _make(cls) -> Authority:
        library = _library()
        x509 = library.x509
        key = library.ec.generate_private_key(library.ec.SECP256R1())
        name = _name(f"veilnet authority {x509.random_serial_number():x}"[:40])
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _SKEW)
            .not_valid_after(now + timedelta(days=_AUTHORITY_DAYS))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, library.hashes.SHA256())
        )
        return cls(key, certificate)

    def issue(
        self,
        where: Credentials,
        common_name: str,
        hosts: Sequence[str] = (),
        *,
        days: float = DAYS,
        start: datetime | None = None,
    ) -> None:
        """A new key and certificate in a party's folder; with ``hosts`` those of a server, else those of a client."""
        library = _library()
        x509 = library.x509
        key = library.ec.generate_private_key(library.ec.SECP256R1())
        start = start or datetime.now(UTC)
        end = min(start + timedelta(days=days), self.certificate.not_valid_after_utc)
        purpose = x509.ExtendedKeyUsageOID
        builder = (
            x509.CertificateBuilder()
            .subject_name(_name(common_name))
            .issuer_name(self.certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(start - _SKEW)
            .not_valid_after(end)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage([purpose.SERVER_AUTH if hosts else purpose.CLIENT_AUTH]), critical=True
            )
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False
            )
        )
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_host(each) for each in hosts]), critical=False
            )
        certificate = builder.sign(self.key, library.hashes.SHA256())
        _private_folder(where.folder)
        write_bytes(where.authority, _pem(self.certificate))
        _write_secret(where.key, key)
        write_bytes(where.certificate, _pem(certificate))

    def vouches(self, where: Credentials, common_name: str, hosts: Sequence[str], left: timedelta) -> bool:
        """Whether a party's folder holds this authority's certificate for these names, valid for that long yet."""
        library = _library()
        if not all(file.is_file() for file in (where.authority, where.certificate, where.key)):
            return False
        if where.authority.read_bytes() != _pem(self.certificate):
            return False
        found = _read_certificate(where.certificate)
        try:
            found.verify_directly_issued_by(self.certificate)
        except (ValueError, TypeError, library.InvalidSignature):
            return False
        return (
            _read_secret(where.key).public_key() == found.public_key()
            and _common_name(found) == common_name
            and _hosts(found) == {str(_host(each).value) for each in hosts}
            and found.not_valid_after_utc - datetime.now(UTC) >= left
        )


class _Library:
    """The parts of the package ``cryptography`` that are used here."""

    def __init__(self) -> None:
        from cryptography import x509
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        self.x509, self.hashes, self.serialization, self.ec = x509, hashes, serialization, ec
        self.InvalidSignature = InvalidSignature


def _library() -> Any:
    try:
        return _Library()
    except ImportError:
        raise MissingExtra('a live network needs its packages: pip install "veilnet[live]"') from None


def _name(common_name: str) -> x509.Name:
    library = _library()
    common = library.x509.oid.NameOID.COMMON_NAME
    name: x509.Name = library.x509.Name([library.x509.NameAttribute(common, common_name)])
    return name


def _common_name(certificate: x509.Certificate) -> str:
    found = certificate.subject.get_attributes_for_oid(_library().x509.oid.NameOID.COMMON_NAME)
    return str(found[0].value) if len(found) == 1 else ""


def _host(given: str) -> Any:
    """A host in a certificate: an address or a DNS name."""
    x509 = _library().x509
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


def _hosts(certificate: x509.Certificate) -> set[str]:
    x509 = _library().x509
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    return {str(each.value) for each in names}


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    usage: x509.KeyUsage = _library().x509.KeyUsage(
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


def _read_certificate(path: Path) -> x509.Certificate:
    try:
        found: x509.Certificate = _library().x509.load_pem_x509_certificate(path.read_bytes())
    except ValueError:
        raise InvalidRequest(f"{path}: not readable as a certificate in PEM; is it the right file?") from None
    return found


def _read_secret(path: Path) -> EllipticCurvePrivateKey:
    try:
        key: EllipticCurvePrivateKey = _library().serialization.load_pem_private_key(
            path.read_bytes(), password=None
        )
    except (ValueError, TypeError):
        raise InvalidRequest(
            f"{path}: not readable as a secret key in PEM; bring the right one back"
        ) from None
    return key


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(_library().serialization.Encoding.PEM)


def _private_folder(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)


def _write_secret(path: Path, key: EllipticCurvePrivateKey) -> None:
    """A secret key, readable by its owner alone from the first byte on."""
    serialization = _library().serialization
    content = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    os.close(moved_into_place(path, content, 0o600))
