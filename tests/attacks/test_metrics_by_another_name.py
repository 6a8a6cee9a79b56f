"""A page whose own name points at 127.0.0.1 (DNS rebinding) must not read a centre's metrics."""

from __future__ import annotations

import http.client

import pytest

from veilnet.live.metrics import MetricsServer


@pytest.mark.parametrize(
    ("hosts", "code"),
    [
        (["evil.example:{port}"], 421),
        (["127.0.0.1.evil.example:{port}"], 421),
        (["localhost:{port}", "evil.example"], 421),
        ([""], 421),
        ([], 421),
        (["127.0.0.1:{port}"], 200),
        (["LOCALHOST"], 200),
        (["localhost:12345"], 200),  # a tunnel
    ],
)
def test_metrics_answer_to_the_names_of_the_loopback_alone(hosts: list[str], code: int) -> None:
    server = MetricsServer(0, lambda: [("epoch", "The newest epoch.", {"": 7})]).start()
    try:
        port = int(server.address.split(":")[2].split("/")[0])
        asking = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        asking.putrequest("GET", "/metrics", skip_host=True)
        for host in hosts:
            asking.putheader("Host", host.format(port=port))
        asking.endheaders()
        answer = asking.getresponse()
        assert (answer.status, b"veilnet_epoch" in answer.read()) == (code, code == 200)
        asking.close()
    finally:
        server.stop()
