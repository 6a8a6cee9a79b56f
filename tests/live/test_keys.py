"""Certificates as openssl and Python's TLS see them; what is kept and renewed; what is refused."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from live.conftest import AGENTS
from veilnet._core.errors import InvalidRequest
from veilnet.live.keys import Authority, Credentials, KeyFolder, make_keys
from veilnet.live.topics import CENTRE, identity


def openssl(*arguments: object) -> str:
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("there is no openssl to ask")
    done = subprocess.run(
        [program, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=120
    )
    return done.stdout + done.stderr


def parties(keys: KeyFolder) -> dict[str, Credentials]:
    return {
        CENTRE: keys.centre,
        "@telegraf": keys.reader("telegraf"),
        **{identity(agent): keys.agent(agent) for agent in AGENTS},
    }


def test_openssl_accepts_each_for_its_purpose_and_no_other(keys: KeyFolder) -> None:
    authority = keys.authority / "ca.crt"

    def purpose(name: str, party: Credentials) -> bool:
        said = openssl("verify", "-purpose", name, "-x509_strict", "-CAfile", authority, party.certificate)
        return said.strip().endswith(": OK")

    assert purpose("sslserver", keys.broker)
    assert not purpose("sslclient", keys.broker)
    for name, party in parties(keys).items():
        limits = x509.load_pem_x509_certificate(party.certificate.read_bytes()).extensions
        assert not limits.get_extension_for_class(x509.BasicConstraints).value.ca, (
            name
        )  # it vouches for nobody
        assert purpose("sslclient", party), name
        assert not purpose("sslserver", party), name
        assert party.identity() == name
        assert timedelta(days=364) < party.expires() - datetime.now(UTC) <= timedelta(days=365)


def test_secrets_are_for_their_owner_alone_and_the_authority_s_is_nowhere_else(tmp_path: Path) -> None:
    # a folder of its own: other tests add seals to the one they share
    keys = make_keys(tmp_path / "keys", AGENTS, readers=["telegraf"]).keys
    secrets = sorted(keys.folder.rglob("*.key"))
    assert len(secrets) == 3 + len(AGENTS) + 1
    contents = {path.read_bytes() for path in secrets}
    assert len(contents) == len(secrets)
    for path in secrets:
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o077 == 0
    assert [path.parent.name for path in secrets if path.name == "ca.key"] == ["authority"]


def shake_hands(server: Credentials, client: Credentials, host: str = "127.0.0.1") -> str:
    """What the client says of a server with these credentials: empty if it accepts it."""
    answering = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    answering.load_cert_chain(server.certificate, server.key)
    ours, theirs = socket.socketpair()
    ours.settimeout(120)
    theirs.settimeout(120)

    def answer() -> None:
        try:
            answering.wrap_socket(theirs, server_side=True).close()
        except OSError:
            theirs.close()

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        client.client_context().wrap_socket(ours, server_hostname=host).close()
    except OSError as error:
        return str(error)
    finally:
        ours.close()
        thread.join()
    return ""


def test_a_failed_handshake_leaves_no_socket_open(keys: KeyFolder) -> None:
    """The client of MQTT shakes hands itself, and forgets the socket where that fails."""
    ours, theirs = socket.socketpair()
    context = keys.centre.client_context()
    waiting = context.wrap_socket(ours, server_hostname="localhost", do_handshake_on_connect=False)
    theirs.close()  # a broker that ends
    with pytest.raises((ssl.SSLError, ConnectionError)):
        waiting.do_handshake()
    assert waiting.fileno() == -1


def test_a_client_knows_its_broker(keys: KeyFolder, tmp_path: Path) -> None:
    agent = keys.agent("kitchen")
    assert shake_hands(keys.broker, agent) == ""
    assert shake_hands(keys.broker, agent, "localhost") == ""
    assert "IP address mismatch" in shake_hands(keys.broker, agent, "192.0.2.7")
    assert "ostname mismatch" in shake_hands(keys.broker, agent, "broker.example")
    assert "unsuitable certificate purpose" in shake_hands(keys.centre, agent)
    other = make_keys(tmp_path, ["kitchen"]).keys
    assert "certificate verify failed" in shake_hands(other.broker, agent)


def test_keys_are_kept_until_there_is_a_reason(tmp_path: Path) -> None:
    first = make_keys(tmp_path, ["a", "b"], hosts=["broker.example"])
    assert first.new == ("broker", "centre", "agent a", "agent b")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file()}
    again = make_keys(tmp_path, ["a", "b"], hosts=["broker.example"])
    assert again.new == ()
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file()} == before
    assert make_keys(tmp_path, ["a", "c"], hosts=["broker.example"]).new == ("agent c",)
    assert make_keys(tmp_path, ["a"], hosts=["other.example"]).new == ("broker",)
    ending = Authority.open(tmp_path / "authority")
    ending.issue(first.keys.agent("a"), "a", days=29)
    first.keys.agent("b").key.write_bytes(first.keys.agent("c").key.read_bytes())
    ending.issue(first.keys.agent("c"), "b")
    made = make_keys(tmp_path, ["a", "b", "c"], hosts=["other.example"])
    assert made.new == ("agent a", "agent b", "agent c")  # soon to end; not its key; not its name
    assert (tmp_path / "authority" / "ca.key").read_bytes() == before[tmp_path / "authority" / "ca.key"]


def test_a_broker_s_certificate_has_its_names(tmp_path: Path) -> None:
    made = make_keys(tmp_path, ["a"], hosts=["broker.example", "192.0.2.7", "2001:db8::1"])
    found = x509.load_pem_x509_certificate(made.keys.broker.certificate.read_bytes())
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["broker.example"]
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == ["192.0.2.7", "2001:db8::1"]


@pytest.mark.parametrize("host", ["", "broker.example:8883", "mqtts://broker", "a b", "a..b", "*", "x" * 64])
def test_a_host_that_is_none_is_refused_before_anything_is_written(host: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="host"):
        make_keys(tmp_path / "keys", ["a"], hosts=[host])
    assert not (tmp_path / "keys").exists()


def test_what_cannot_be_used_is_refused_with_a_reason(keys: KeyFolder, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"veilnet live keys"):
        Credentials(tmp_path).client_context()
    authority = Authority.open(keys.authority)
    late = Credentials(tmp_path / "late")
    authority.issue(late, "kitchen", days=1, start=datetime.now(UTC) - timedelta(days=2))
    with pytest.raises(InvalidRequest, match="clock"):
        late.client_context()
    early = Credentials(tmp_path / "early")
    authority.issue(early, "kitchen", start=datetime.now(UTC) + timedelta(days=2))
    with pytest.raises(InvalidRequest, match="set the clock"):
        early.client_context()
    mixed = Credentials(tmp_path / "mixed")
    authority.issue(mixed, "kitchen")
    mixed.key.write_bytes(keys.centre.key.read_bytes())
    with pytest.raises(InvalidRequest, match="certificate"):
        mixed.client_context()
    mixed.certificate.write_text("hello")
    with pytest.raises(InvalidRequest, match="not readable as a certificate"):
        mixed.client_context()
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "ca.key").write_bytes(b"")
    with pytest.raises(InvalidRequest, match=r"ca\.key and ca\.crt"):
        Authority.open(tmp_path / "half")
    with pytest.raises(InvalidRequest, match="1 to 3650, found 0"):
        make_keys(tmp_path, ["a"], days=0)
