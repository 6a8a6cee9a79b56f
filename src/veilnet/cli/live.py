"""``veilnet live``: what goes with a network over a broker, a function for each command of the group."""

from __future__ import annotations

import itertools
import json as json_module
import math
import os
import queue
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from veilnet._core.errors import InvalidRequest
from veilnet.cli import _live_demo
from veilnet.cli._command_line import BROKER, JSON, PORT, ROOT, argument, option
from veilnet.cli._lines import speaker, stop_signal
from veilnet.cli._shared import amounts, microseconds, print_json, show, tell, tell_address


def _budget(
    plan: Path = argument("The folder of a plan, or plan.npz."),
    least_privacy: list[str] = option(
        "--least-privacy",
        "Privacy that must remain for what stays constant: 3, or gait=3 (repeat).",
        required=True,
    ),
    json: bool = JSON,
) -> int:
    """Compute how many epochs may be released before a constant private parameter is known too well.

    Every release of the same x adds information. If x changes from epoch to epoch, the promise holds for each; if
    it stays, information accumulates. Begin each agent's store with the answer: veilnet agent ... --begin --budget
    N. A plan for streams counts every row already and needs no budget.
    """
    from veilnet.auditing.measures import read_least_privacy
    from veilnet.auditing.what_if.repetition import releases_until
    from veilnet.plans.plan import Plan

    found = Plan.load(plan)
    if found.network.is_stream:
        raise InvalidRequest(
            "plan: the promise of a plan for streams counts every row already, so no budget is needed"
        )
    asked = read_least_privacy(found.network, amounts(least_privacy, "--least-privacy"))
    allowed = {
        name: releases_until(found.network, found.sanitizers, name, least) - 1
        for name, least in asked.items()
    }
    name, most = min(allowed.items(), key=lambda entry: entry[1])
    left = f"a privacy of {asked[name]:g} of {name}"
    if json:
        print_json({"budget": most, "by_parameter": allowed})
    elif math.isinf(most):
        show("As many releases as you like leave that much privacy: no budget is needed.")
    elif most < 1:
        show(f"Not even one release leaves {left}.")
        return 1
    else:
        tell(
            f"{most:.0f} releases leave {left}, one more does not. Begin each agent with --budget {most:.0f}."
        )
    return 0


def _keys(
    plan: Path = argument("The plan: its folder, its center.json, or plan.npz."),
    out: Path = option("--out", "Folder for all keys; an existing one is completed.", required=True),
    host: list[str] | None = option(
        "--host", "Name or address of the broker (repeat); localhost by default."
    ),
    port: int = option("--port", "Where the broker listens.", at_least=1, at_most=65535, default=8883),
    folder: str | None = option(
        "--broker-folder", "Where keys/broker will be on the broker's machine, if elsewhere."
    ),
    persistence: str | None = option(
        "--persistence", "Where the broker may store its queue; in memory by default."
    ),
    reader: list[str] | None = option(
        "--reader", "Name of a program that reads estimates, such as telegraf (repeat)."
    ),
    standby: bool = option("--standby", "Also create keys/standby, for a second centre that takes over."),
    second: bool = option("--second", "Of sums: make keys/second too, for two centres that do not collude."),
    root: str = ROOT,
    days: int = option("--days", "Validity of certificates in days.", at_least=1, default=365),
    json: bool = JSON,
) -> None:
    """Create certificates for the broker, the centre and every agent of a plan, and Mosquitto's configuration.

    Hand each party its own folder only: keys/broker, keys/centre, keys/agents/kitchen, ... Keep keys/authority: it
    can certify any name. Run it again after a change of plan, or to renew: the authority and certificates with at
    least 30 days left are kept; mosquitto.conf and the access list are rewritten, and agents no longer in the plan
    lose their access.
    """
    from veilnet.live.broker import BrokerPlan, largest_packet, write_configuration
    from veilnet.live.keys import LOOPBACK, KeyFolder, make_keys
    from veilnet.live.seals import make_seals
    from veilnet.live.topics import SECOND, Topics

    topics = Topics(root)
    agents, groups, labels = _agents(plan)
    hosts, readers = tuple(host or LOOPBACK), tuple(reader or ())
    if SECOND in agents:
        raise InvalidRequest(
            f"plan: an agent is called {SECOND}, which is the second centre's name; rename it"
        )
    if second or KeyFolder(out).agent(SECOND).folder.exists():
        if not groups:
            raise InvalidRequest(
                "--second: expected a plan whose agents add up their messages (design --summed all), found another; "
                "leave it out, and ask for another folder (--out)"
            )
        agents, groups = [*agents, SECOND], [(*members, SECOND) for members in groups]
    made = make_keys(out, agents, hosts=hosts, readers=readers, days=days, standby=standby)
    make_seals(made.keys, agents, readers, groups)
    written = write_configuration(
        made.keys.broker, BrokerPlan(agents, topics, readers, largest_packet=largest_packet(agents, labels)),
        folder=folder, port=port,
        address=None if host else "127.0.0.1", persistence=persistence,
    )  # fmt: skip
    if json:
        print_json({"folder": out, "configuration": written, "new": made.new, "kept": made.kept})
        return
    root_too = (
        f"As root it becomes the user mosquitto; let that one read it: chown -R mosquitto {written.parent}"
    )
    for sentence in (
        f"Made keys for {len(made.new)} parties in {out}, kept those of {len(made.kept)}; valid for {days} days.",
        f"Start the broker with: mosquitto -c {written}",
        *([root_too] if os.geteuid() == 0 else []),
        f"Hand each party its own folder and nothing else; keep {made.keys.authority} to yourself.",
    ):
        tell(sentence)


def _agents(plan: Path) -> tuple[list[str], list[tuple[str, ...]], Sequence[str]]:
    """(the names of the agents in a plan, those whose messages are added up, its public parameters)."""
    from veilnet.io._sealed import sealed_bytes
    from veilnet.io.plan_archives import is_archive
    from veilnet.io.plan_files import CENTRE
    from veilnet.live.fusions import fusion_of, senders, sums_of
    from veilnet.plans.plan import Plan

    if is_archive(plan):
        found = Plan.load(plan)
        together = {each.summed.members for each in found.members.values() if each.summed is not None}
        return list(found.members), sorted(together), found.network.public_rows
    file = plan / CENTRE if plan.is_dir() else plan
    fusion = fusion_of(sealed_bytes(file), file)
    groups = [tuple(each.members) for each in sums_of(fusion).values()]
    return list(senders(fusion)), groups, fusion.model.labels


def _second(
    center: Path = argument("The centre's file of a plan whose agents add up their messages."),
    broker: str = BROKER,
    cert: Path = option("--cert", "keys/second of 'veilnet live keys --second'.", required=True),
    store: Path = option("--store", "Which epochs it answered, and whose keys it met.", required=True),
    begin: bool = option("--begin", "The very first start: begin the store."),
    root: str = ROOT,
) -> int:
    """Run the second of two centres that add up halves of messages; they must be in different hands.

    Agents whose folder of keys has a second centre send each message in two halves, each of them as good as random.
    This centre answers the first one once an epoch with the sum of its halves, of as many members as the plan says.
    It sees no sum and no estimate.
    """
    from veilnet.io._sealed import sealed_bytes
    from veilnet.io.agent_store import AgentStore, begin_agent_store, check_not_begun
    from veilnet.live.connecting import read_address
    from veilnet.live.fusions import fusion_of, sums_of
    from veilnet.live.keys import Credentials
    from veilnet.live.seals import agent_seal
    from veilnet.live.second_centre import SecondLink
    from veilnet.live.sum_desk import terms_of
    from veilnet.live.topics import SECOND, Topics

    ended, credentials, address = stop_signal(), Credentials(cert), read_address(broker)
    fusion = fusion_of(sealed_bytes(center), center)
    groups = terms_of(str(fusion.model.plan), sums_of(fusion))
    if not groups:
        raise InvalidRequest(f"{center}: expected a plan whose agents add up their messages, found another")
    seal = agent_seal(credentials, SECOND)
    if begin:
        check_not_begun(store)
        begin_agent_store(store, SECOND)
    with AgentStore(store, SECOND) as kept:
        link = SecondLink(
            kept, seal, groups.values(), Topics(root), credentials, address, speaker("live second")
        )
        link.start()
        try:
            while not ended.wait(0.5):
                if link.failure is not None:
                    raise link.failure
        finally:
            link.stop()
    return 0


def _page(
    store: Path = argument("The centre's --out."),
    port: int = PORT,
) -> None:
    """Show a live network in the browser: each estimate with its band, and the state of every agent.

    It listens on this machine only and prints an address that works once, in one browser. The page refreshes every
    five seconds. Ctrl-C ends it.
    """
    from veilnet.studio.live_page import serve_live

    serve_live(store, port=port, started=tell_address)


def _read(
    broker: str = BROKER,
    cert: Path = option(
        "--cert", "Folder of a reader from 'veilnet live keys --reader NAME'.", required=True
    ),
    history: bool = option("--history", "Revisions and late estimates instead of the newest."),
    count: int | None = option("--count", "End after this many estimates; never by default.", at_least=1),
    root: str = ROOT,
) -> int:
    """Print the centre's estimates as JSON lines, after checking its signature.

    A broker can forge estimates for readers that do not check; Home Assistant and Telegraf trust it. Here estimates
    that are unsigned, modified, of another network or out of date are dropped and reported, and the exit code is 1.
    A broker can still withhold estimates: "published" is when the centre sent them.
    """
    from veilnet.live.connecting import read_address
    from veilnet.live.keys import Credentials
    from veilnet.live.reading import Reader
    from veilnet.live.topics import Topics

    ended = stop_signal()
    coming = itertools.count(1)

    def estimated(table: dict[str, Any]) -> None:
        if ended.is_set():
            return
        sys.stdout.write(json_module.dumps(table, ensure_ascii=False) + "\n")
        sys.stdout.flush()
        if next(coming) == count:
            ended.set()

    reader = Reader(
        Topics(root), Credentials(cert), read_address(broker), say=speaker("live read"), estimated=estimated,
        history=history,
    )  # fmt: skip
    reader.start()
    try:
        ended.wait()
    finally:
        reader.stop()
    return 1 if reader.refused else 0


def _split(
    plan: Path = argument("The folder of a saved plan."),
    parts: int = option("--parts", "How many centres share its agents.", at_least=2, required=True),
) -> None:
    """Write a centre's file for each part of the agents, center-1.json, center-2.json, ..., beside center.json.

    Each is run as a network of its own: 'live keys' of that file, a broker, a root, and center --sums. What they
    publish 'live merge' makes into the estimates of all. A new plan in the folder takes the files away; split it
    again, and sign it after that.
    """
    from veilnet._core.words import counted
    from veilnet.centre.fusion import Fusion
    from veilnet.centre.partial_sums import messages_of_part
    from veilnet.io._atomic import write_bytes
    from veilnet.io._sealed import seal
    from veilnet.io.centre_files import centre_document, load_centre
    from veilnet.io.plan_files import CENTRE
    from veilnet.live.merging import check_summable

    fusion = Fusion.load(plan / CENTRE)
    check_summable(fusion)
    names = [agent for agent, size in fusion.sent.items() if size]
    if parts > len(names):
        raise InvalidRequest(f"--parts: expected 2 to {len(names)}, the agents that send, found {parts}")
    for part in range(parts):
        path = (plan / CENTRE).with_stem(f"center-{part + 1}")
        if path.exists():
            load_centre(path)  # an agent's file is not written over
        mine = names[part * len(names) // parts : (part + 1) * len(names) // parts]
        write_bytes(path, seal(centre_document(messages_of_part(fusion.model, mine))))
        tell(f"{path}: {counted(len(mine), 'agent')}, {mine[0]} to {mine[-1]}")


def _merge(
    center: Path = argument("The file of the whole plan, plan/center.json."),
    part: list[str] = option(
        "--part",
        "A centre with --sums: a reader's folder of its keys, its broker and its root (repeat).",
        metavar="FOLDER=mqtts://broker:8883/root",
        required=True,
    ),
    wait: str = option("--wait", "How long an epoch waits for parts after the first one's.", default="30s"),
    step: str | None = option("--step", "How long an epoch is, where the plan does not say so."),
) -> int:
    """Print the estimates of all agents as JSON lines, from the sums that the centres of their parts publish.

    They are those of one centre for all, but for rounding. An epoch is merged when all parts have published it, or
    --wait after the first; what comes later gives its next revision. Nothing is kept on the disk: after a restart,
    what parts still have is published once more by their center --backfill.
    """
    from veilnet.centre.fusion import Fusion
    from veilnet.live.epochs import epochs_of
    from veilnet.live.merging import Merger, read_part
    from veilnet.live.reading import Reader

    fusion = Fusion.load(center)
    places = dict(map(read_part, part))
    if len(places) < len(part):
        raise InvalidRequest("--part: expected each centre once, found one of them twice; leave one out")
    say, ended = speaker("live merge"), stop_signal()
    merger = Merger(
        fusion, list(places), microseconds(wait, "--wait") / 1e6, epochs_of(step, fusion.model.step), say
    )
    coming: queue.SimpleQueue[tuple[str, dict[str, Any]]] = queue.SimpleQueue()

    def reader(name: str) -> Reader:
        credentials, address, topics = places[name]
        return Reader(
            topics, credentials, address, say=say, history=None,
            estimated=lambda table: coming.put((name, table)),
        ).start()  # fmt: skip

    readers = [reader(name) for name in places]
    try:
        while not ended.is_set():
            with suppress(queue.Empty):
                merger.tell(*coming.get(timeout=0.1), time.monotonic())
            for table in merger.due(time.monotonic()):
                sys.stdout.write(json_module.dumps(table, ensure_ascii=False) + "\n")
                sys.stdout.flush()
    finally:
        for each in readers:
            each.stop()
    return 1 if any(each.refused for each in readers) else 0


def _backup(
    store: Path = argument("The centre's --out, while it runs or not."),
    copy: Path = argument("A new file for the copy."),
) -> None:
    """Copy a centre's store to a new file, consistently, while the centre runs.

    Messages received after the copy come back only from agents that still have them: agents forget what was
    acknowledged. An agent's store is never copied: restored, it would draw new noise for readings already sent.
    """
    from veilnet.io._formats import base
    from veilnet.io.agent_ledger import KIND
    from veilnet.io.agent_store import NO_COPIES
    from veilnet.live.status import copy_store, kind_of

    if base(kind_of(store)) == base(KIND):
        raise InvalidRequest(f"{store}: an agent's store is not copied: {NO_COPIES}")
    copy_store(store, copy)
    tell(f"{copy} is what {store} was at one moment.")


def _status(
    stores: list[Path] = argument("The centre's --out, or an agent's --store; several, if you like."),
    json: bool = JSON,
) -> None:
    """Show the state of a live network, while it runs or afterwards; nothing is changed.

    For a centre: messages per agent, epochs missed (no reading to release) or silent (nothing arrived), lag in
    epochs, time last heard, refusals with reasons. For an agent: releases, unacknowledged messages, remaining
    budget.
    """
    from veilnet.cli._views import show_centre
    from veilnet.io._formats import base
    from veilnet.io.agent_ledger import KIND
    from veilnet.live.status import agent_status, kind_of, read_status

    found: list[dict[str, Any]] = []
    for path in stores:
        if base(kind_of(path)) == base(KIND):
            agent, ledger = agent_status(path)
            found.append({"store": path, "agent": agent, **vars(ledger)})
            if not json:
                _show_agent(agent, ledger)
        else:
            status = read_status(path)
            found.append({"store": path, **status.as_json()})
            if not json:
                show_centre(status)
    if json:
        print_json(found[0] if len(found) == 1 else found)


def _show_agent(agent: str, ledger: Any) -> None:
    from veilnet._core.words import counted

    left = "no budget" if ledger.left is None else f"{ledger.left} more within its budget"
    tell(
        f"{agent}: {ledger.releases} releases up to epoch {ledger.epoch}, {counted(ledger.missed, 'epoch')} missed, "
        f"{ledger.waiting} messages not acknowledged, {ledger.refused} refused by the centre; {left}; "
        f"head {ledger.head}"
    )


commands: dict[str, Callable[..., object]] = {
    "demo": _live_demo.command,
    "keys": _keys,
    "budget": _budget,
    "status": _status,
    "second": _second,
    "page": _page,
    "read": _read,
    "split": _split,
    "merge": _merge,
    "backup": _backup,
}
