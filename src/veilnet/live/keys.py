"""Who is who: a certificate authority of the network's own, and a certificate for each party.

Every party gets a folder with all it needs, and nothing else is handed to it::

    keys/authority/        ca.key ca.crt       stays with the maker of keys
    keys/broker/           ca.crt party.crt party.key (and mosquitto.conf, acl: :mod:`veilnet.live.broker`)
    keys/centre/           ca.crt party.crt party.key
    keys/standby/          the same for a second centre, which takes over where the first is gone
    keys/second/           the same for the second of two centres that add up halves
    keys/agents/<agent>/   ca.crt party.crt party.key
    keys/readers/<name>/   ca.crt party.crt party.key

What seals and signs lies beside (:mod:`veilnet.live.seals`).

Keys are ECDSA on P-256, which every TLS library knows, and readable by their owner alone. The common name of a
certificate is the party's :func:`~veilnet.live.topics.identity`. Certificates of clients cannot stand for the broker.
"""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from veilnet._core.errors import InvalidRequest
from veilnet._core.extras import missing_extra
from veilnet.io._atomic import write_bytes
from veilnet.live.topics import CENTRE, SECOND, STANDBY, identity, reader_identity

try:
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ImportError:
    raise missing_extra("a live network needs its packages", "live") from None

DAYS = 365
_AUTHORITY_DAYS = 3650
_SKEW = timedelta(hours=1)  # clocks of small machines are behind at times
_RENEW = timedelta(days=30)
LOOPBACK = ("localhost", "127.0.0.1", "::1")


class _ClosedAfterFailure(ssl.SSLSocket):
    """A socket that a failed handshake closes: the client of MQTT would leave it open."""

    def do_handshake(self, block: bool = False) -> None:
        """As of every socket."""
        try:
            super().do_handshake(block)
        except BaseException:
            self.close()
            raise


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
        return _common_name_of(_read_certificate(self.certificate))

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
        context.sslsocket_class = _ClosedAfterFailure
        try:
            context.load_verify_locations(self.authority)
            context.load_cert_chain(self.certificate, self.key)
        except (ssl.SSLError, OSError) as error:
            raise InvalidRequest(
                f"{self.folder}: not usable as certificate and key ({error}); make new ones with 'veilnet live keys'"
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

    @property
    def standby(self) -> Credentials:
        """The folder of a second centre, where there is one."""
        return Credentials(self.folder / "standby")

    def agent(self, name: str) -> Credentials:
        """An agent's folder; that of the second of two centres too."""
        if name == SECOND:
            return Credentials(self.folder / "second")
        return Credentials(self.folder / "agents" / identity(name))

    def reader(self, name: str) -> Credentials:
        """The folder of a program that reads estimates."""
        return Credentials(self.folder / "readers" / reader_identity(name).removeprefix("@"))


@dataclass(frozen=True)
class MadeKeys:
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
    standby: bool = False,
) -> MadeKeys:
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
        _as_host(each)
    keys = KeyFolder(folder)
    authority = Authority.open(keys.authority)
    parties = [
        ("broker", keys.broker, hosts[0][:64], tuple(hosts)),
        ("centre", keys.centre, CENTRE, ()),
        *([("standby", keys.standby, STANDBY, ())] if standby or keys.standby.folder.exists() else []),
        *(
            (name if name == SECOND else f"agent {name}", keys.agent(name), identity(name), ())
            for name in agents
        ),
        *((f"reader {name}", keys.reader(name), reader_identity(name), ()) for name in readers),
    ]
    new, kept = [], []
    for words, where, common_name, names in parties:
        if authority.vouches(where, common_name, names, min(_RENEW, timedelta(days=days) / 2)):
            kept.append(words)
        else:
            authority.issue(where, common_name, names, days=days)
            new.append(words)
    return MadeKeys(keys, tuple(new), tuple(kept))


class Authority:
    """A certificate authority: its secret key, and its certificate."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
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
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            _write_secret(secret, made.key)
            write_bytes(public, _as_pem(made.certificate))
            return made
        return cls(_read_secret(secret), _read_certificate(public))

    @classmethod
    def _make(cls) -> Authority:
        key = ec.generate_private_key(ec.SECP256R1())
        name = _as_name(f"veilnet authority {x509.random_serial_number():x}"[:40])
        now = datetime.now(UTC)
        end = now + timedelta(days=_AUTHORITY_DAYS)
        return cls(key, _unsigned(key, name, name, now, end, is_authority=True).sign(key, hashes.SHA256()))

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
        key = ec.generate_private_key(ec.SECP256R1())
        start = start or datetime.now(UTC)
        end = min(start + timedelta(days=days), self.certificate.not_valid_after_utc)
        purpose = ExtendedKeyUsageOID
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        builder = (
            _unsigned(key, _as_name(common_name), self.certificate.subject, start, end, is_authority=False)
            .add_extension(
                x509.ExtendedKeyUsage([purpose.SERVER_AUTH if hosts else purpose.CLIENT_AUTH]), critical=True
            )
            .add_extension(issuer, critical=False)
        )
        if hosts:
            names = x509.SubjectAlternativeName([_as_host(each) for each in hosts])
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(self.key, hashes.SHA256())
        where.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_bytes(where.authority, _as_pem(self.certificate))
        _write_secret(where.key, key)
        write_bytes(where.certificate, _as_pem(certificate))

    def vouches(self, where: Credentials, common_name: str, hosts: Sequence[str], left: timedelta) -> bool:
        """Whether a party's folder holds this authority's certificate for these names, valid for that long yet."""
        if not all(file.is_file() for file in (where.authority, where.certificate, where.key)):
            return False
        if where.authority.read_bytes() != _as_pem(self.certificate):
            return False
        found = _read_certificate(where.certificate)
        try:
            found.verify_directly_issued_by(self.certificate)
        except (ValueError, TypeError, InvalidSignature):
            return False
        return (
            _read_secret(where.key).public_key() == found.public_key()
            and _common_name_of(found) == common_name
            and _hosts_of(found) == {str(_as_host(each).value) for each in hosts}
            and found.not_valid_after_utc - datetime.now(UTC) >= left
        )


def _unsigned(key: Any, name: Any, issuer: Any, start: datetime, end: datetime, *, is_authority: bool) -> Any:
    """What every certificate of the network says."""
    limits = x509.BasicConstraints(ca=is_authority, path_length=0 if is_authority else None)
    purposes = (  # to sign certificates, or to prove who one is
        "digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
        "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
    )  # fmt: skip
    mine = {"key_cert_sign", "crl_sign"} if is_authority else {"digital_signature"}
    usage = x509.KeyUsage(**{purpose: purpose in mine for purpose in purposes})
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start - _SKEW)
        .not_valid_after(end)
        .add_extension(limits, critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


# --- certificates and secret keys in files


def _as_name(common_name: str) -> x509.Name:
    """A name of nothing but a common name."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _common_name_of(certificate: x509.Certificate) -> str:
    """The common name in a certificate; empty if there is not exactly one."""
    found = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value) if len(found) == 1 else ""


def _as_host(given: str) -> Any:
    """A host in a certificate: an address or a DNS name."""
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


def _hosts_of(certificate: x509.Certificate) -> set[str]:
    """The hosts that a certificate is for."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    return {str(each.value) for each in names}


def _read_certificate(path: Path) -> x509.Certificate:
    """The certificate in a file."""
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except ValueError:
        raise InvalidRequest(f"{path}: not readable as a certificate in PEM; is it the right file?") from None


def _read_secret(path: Path) -> ec.EllipticCurvePrivateKey:
    """The secret key in a file."""
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise TypeError
    except (ValueError, TypeError):
        raise InvalidRequest(
            f"{path}: not readable as a secret key in PEM; bring the right one back"
        ) from None
    return key


def _as_pem(certificate: x509.Certificate) -> bytes:
    """A certificate as it stands in a file."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def _write_secret(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    """A secret key, readable by its owner alone from the first byte on."""
    content = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    write_bytes(path, content, mode=0o600)
