"""``veilnet center``: receives from a broker, keeps, acknowledges, and estimates."""

from __future__ import annotations

import json as json_module
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from veilnet.cli._command_line import ACCEPTED, BROKER, GATE, KEEP, ROOT, TRUST, argument, option
from veilnet.cli._lines import speaker, when_told_to_end

if TYPE_CHECKING:
    from veilnet.io.acceptance import PlanFile
    from veilnet.live.centre import Centre, Estimated
    from veilnet.live.keys import Credentials
    from veilnet.live.messages import Seal
    from veilnet.live.neighbours import Neighbours
    from veilnet.live.receiving import Receiver

_say = speaker("center")


def command(
    center: Path = argument("The centre's file, plan/center.json."),
    broker: str = BROKER,
    cert: Path = option(
        "--cert", "The centre's folder of 'veilnet live keys': certificate, key, seals.", required=True
    ),
    out: Path = option("--out", "Messages and estimates, an SQLite file; it is continued.", required=True),
    wait: str = option(
        "--wait", "How long an epoch waits for agents after its first message.", default="30s"
    ),
    step: str | None = option("--step", "How long an epoch is, where the plan does not say so."),
    quorum: int | None = option(
        "--quorum", "How many agents have to tell an epoch; more than half of them if left out.", at_least=1
    ),
    gate: float | None = GATE,
    no_gate: bool = option("--no-gate", "Use messages without testing them against the model."),
    keep: bool = KEEP,
    metrics: int | None = option(
        "--metrics", "Port on the loopback for Prometheus; 0 for any.", at_least=0, at_most=65535
    ),
    trust: str | None = TRUST,
    home_assistant: bool = option(
        "--home-assistant", "Describe the estimates to Home Assistant, on the broker."
    ),
    influx: bool = option("--influx", "Publish estimates as lines for InfluxDB too, for Telegraf."),
    accepted: Path | None = ACCEPTED,
    root: str = ROOT,
    quiet: bool = option("--quiet", "Do not print estimates."),
    json: bool = option("--json", "Print estimates as JSON lines."),
) -> int:
    """Estimate the public parameters of every epoch, from whatever arrived by its deadline.

    Every message is kept once and committed before it is acknowledged. An epoch is estimated when all agents have
    told it, or --wait after its first message if a quorum has; a message that comes later revises it. Agents that did
    not send are named, and so are those whose messages contradict the model, which are left out. What is refused
    (unknown agents, forged, changed or malformed messages, other plans) is counted and said, without its content, and
    ends nothing.

    A new version of the centre's file is taken up while it runs; messages of plans before are fused by those, unless
    their agent does not send by the new one.
    """
    from veilnet import __version__
    from veilnet._core.errors import InvalidRequest
    from veilnet.cli._shared import microseconds
    from veilnet.io._sealed import sealed_bytes
    from veilnet.io.acceptance import PlanFile
    from veilnet.live.centre import USUAL_GATE, Centre
    from veilnet.live.centre_store import CentreStore
    from veilnet.live.connecting import read_address
    from veilnet.live.home_assistant import PREFIX
    from veilnet.live.keys import Credentials
    from veilnet.live.neighbours import Neighbours
    from veilnet.live.receiving import Receiver
    from veilnet.live.topics import Topics

    address, topics, waiting = read_address(broker), Topics(root), microseconds(wait, "--wait") / 1e6
    file = PlanFile(center, trust, accepted)
    content, _, _ = file.runnable(sealed_bytes(center), _unread)
    if no_gate and (keep or gate is not None):
        raise InvalidRequest("--no-gate: nothing is tested then; leave --gate and --keep out")
    if keep or gate is not None:
        _refuse_untestable(content, center, "--keep" if gate is None else "--gate")
    credentials = Credentials(cert)
    seals: dict[str, Seal] = {}
    with CentreStore(out) as store:
        centre = Centre(
            store, seals, topics, wait=waiting, gate=None if no_gate else gate or USUAL_GATE, keep=keep,
            quorum=quorum, step=step,
        )  # fmt: skip
        neighbours = Neighbours(topics, __version__, PREFIX if home_assistant else None, influx)
        service = _Service(
            file, centre, seals, credentials, neighbours, "" if quiet else "json" if json else "lines"
        )
        service.take_up(content)
        neighbours.meet(centre.fusion)
        receiver = Receiver(
            centre, seals, topics, credentials, address,
            say=_say, estimated=service.shown, idle=service.look_around, neighbours=neighbours,
        )  # fmt: skip
        service.run(receiver, metrics)
    return 0


def _refuse_untestable(content: bytes, center: Path, option: str) -> None:
    from veilnet._core.errors import InvalidRequest
    from veilnet.live.fusions import fusion_of

    if fusion_of(content, center, gate=0.5).gate is None:
        raise InvalidRequest(
            f"{option}: messages of this plan are not tested against a model (symbols, or numbers added up over "
            "very many agents); leave it out"
        )


def _unread(content: bytes, path: Path) -> tuple[bytes, None]:
    """The centre's file as it is: the centre makes its model of it, and keeps the bytes."""
    del path
    return content, None


class _Service:
    """A centre at work: takes up plans, shows estimates (json, lines or nothing), says what its owner should know."""

    def __init__(
        self,
        file: PlanFile,
        centre: Centre,
        seals: dict[str, Seal],
        credentials: Credentials,
        neighbours: Neighbours,
        show: str,
    ) -> None:
        from veilnet.live.plan_watch import PlanWatch

        self._file, self._centre, self._seals, self._credentials = file, centre, seals, credentials
        self._neighbours, self._show = neighbours, show
        self._watch = PlanWatch(file, self._roll_over, _say)
        self._refusals = _Refusals(centre)
        self._looked = 0.0
        self._receiver: Receiver | None = None

    def take_up(self, content: bytes) -> bool:
        """Whether this plan was not the one that counts already; its agents' seals are read."""
        from veilnet.live.seals import centre_seals

        centre = self._centre
        new = centre.take_up(content, self._file.path)
        self._seals.update(centre_seals(self._credentials, centre.agents))
        centre.admit(self._seals)
        if new:
            _say(f"plan {centre.plan[:16]} is taken up, with {len(centre.fusion.agents)} agents")
        for agent in centre.agents:
            if agent not in self._seals:
                _say(f"{agent} has no seal here, so what it sends is refused; 'veilnet live keys' makes one")
        return new

    def _roll_over(self, new: bytes) -> None:
        if self.take_up(self._file.runnable(new, _unread)[0]) and self._receiver is not None:
            self._receiver.publish(self._neighbours.meet(self._centre.fusion))

    def shown(self, made: Estimated) -> dict[str, Any]:
        """An estimate as it is published, printed where that is wanted."""
        from veilnet.live.showing import as_line, as_table

        epochs = self._centre.epochs
        table = as_table(made, epochs)
        if self._show:
            line = (
                json_module.dumps(table, ensure_ascii=False)
                if self._show == "json"
                else as_line(made, epochs)
            )
            sys.stdout.write(line + "\n")
            sys.stdout.flush()
        return table

    def look_around(self) -> None:
        """For a new plan, and for what was refused, every half second."""
        if time.monotonic() > self._looked + 0.5:
            self._looked = time.monotonic()
            self._watch.check()
            self._refusals.tell()

    def run(self, receiver: Receiver, metrics: int | None) -> None:
        """Receive until a signal ends it; metrics: the port for them, None for none."""
        from veilnet.live.metrics import MetricsServer, as_metrics
        from veilnet.live.status import read_status

        self._receiver, path = receiver, self._centre.store.path
        server = None
        if metrics is not None:
            server = MetricsServer(
                metrics, lambda: as_metrics(read_status(path), connected=receiver.connected)
            ).start()
            _say(f"metrics at {server.address}")
        try:
            receiver.run(when_told_to_end().is_set)
        finally:
            if server is not None:
                server.stop()
        self._refusals.tell()


class _Refusals:
    """Says what was refused since it was last said, once in a while."""

    def __init__(self, centre: Centre) -> None:
        self._centre, self._told = centre, dict(centre.store.counts)
        self._drifted: tuple[str, ...] = ()

    def tell(self) -> None:
        from veilnet.live.intake import NOT_USED, is_refusal
        from veilnet.live.showing import void

        counts = self._centre.store.counts
        drifted = self._centre.drifted(self._centre.plan)
        if drifted != self._drifted:
            self._drifted = drifted
            _say(void(drifted))
        for (agent, reason), count in counts.items():
            new = count - self._told.get((agent, reason), 0)
            if new and is_refusal(reason):
                whose = f"on the topic of {agent}" if agent else "on a topic of nobody's"
                did = "kept and did not use" if reason in NOT_USED else "refused"
                _say(f"{did} {new} message{'s' if new > 1 else ''} {whose}: {reason} ({count} so far)")
        self._told = dict(counts)
