"""``veilnet inspect``: what an agent is asked to send, in words, before it sends anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from veilnet._core.errors import InvalidPlan, InvalidRequest, VeilnetError
from veilnet.cli._command_line import ACCEPTED, HEAD, JSON, argument, option
from veilnet.cli._shared import print_json, refuse_without_ledger, tell, tell_next

if TYPE_CHECKING:
    from veilnet.agent.sanitizer import Sanitizer
    from veilnet.io.statements import StatedPromise, Statement
    from veilnet.io.trust import Trust

_CONFIRM = option("--confirm", "Agree to this signed file, although it reveals more than the one before.")
_RECEIVED = option(
    "--received", "Number of this agent's messages at the centre (printed by fuse).", at_least=0
)


def command(
    sanitizer: Path = argument("Agent's file in a plan folder."),
    trust: list[str] | None = option(
        "--trust", "Fingerprint, public key or trust file to check against (repeat)."
    ),
    pin: bool = option("--pin", "Pin this file: sanitize then refuses any other in its place."),
    confirm: bool = _CONFIRM,
    accepted: Path | None = ACCEPTED,
    ledger: Path | None = option("--ledger", "Agent's store to audit (sanitize --store, agent --store)."),
    head: str | None = HEAD,
    received: int | None = _RECEIVED,
    json: bool = JSON,
) -> int:
    """Show what an agent's file would send of each reading, and what the plan promises.

    Raises an alarm where raw readings can be recovered. Prints the file's fingerprint, to compare with the
    designer's over another channel. For a signed plan (--trust with a public key): whether it is older than one
    that was run, or reveals more than the one agreed to; --confirm agrees. With --ledger: whether the record of
    releases is intact, continues --head, and has as many rows as the centre received.

    Exit code 0: no alarm; 1: alarm, no trust, or more than was agreed to; 2: unreadable.
    """
    from veilnet.cli._symbols import inspect_symbols, is_symbols, refuse_other
    from veilnet.io._sealed import sealed_bytes
    from veilnet.io.agent_ledger import audit_releases
    from veilnet.io.sanitizer_files import sanitizer_from_bytes
    from veilnet.io.trust import fingerprint, pinned
    from veilnet.review.inspection import inspect

    refuse_without_ledger(ledger, head=head, received=received)
    content = sealed_bytes(sanitizer)  # read once: what is checked is then what is run
    pins = pinned(sanitizer, trust or ())
    pins = (pins[:1] if trust else ()) if pin else pins  # the pin beside the file gets a new content
    signed, distrust = _trusted(sanitizer, content, pins)
    known = {"fingerprint": fingerprint(content), "trusted": None if not pins else not distrust}
    if is_symbols(sanitizer):
        refuse_other({"--confirm": confirm, "--accepted": accepted, "--ledger": ledger})
        inspect_symbols(sanitizer, content, known, distrust, json=json)
        if pin:
            _pin(sanitizer, content, (), distrust, say=not json)
        return 1 if distrust else 0
    agent, plan = sanitizer_from_bytes(content, sanitizer)
    found = inspect(agent)
    released = None if ledger is None else audit_releases(ledger, agent.agent, head, received)
    if confirm and signed is None and not distrust:
        raise InvalidRequest(
            "--confirm: only a signed plan is agreed to; give --trust and the public key, or --pin"
        )
    promised, promise = _promise_of(sanitizer, plan, signed, summed=agent.summed is not None)
    agreed = _agreement(sanitizer, agent, signed, accepted, confirm=confirm and not distrust)
    if json:
        print_json(
            {
                "agent": found.agent,
                "plan": plan,
                **known,
                "version": None if signed is None else signed.version,
                "expires": None if signed is None else signed.expires,
                "promise": promised,
                "more": agreed.more,
                "refused": agreed.refused,
                "confirmed": agreed.confirmed,
                "numbers": found.numbers,
                "summed": found.summed,
                "readings": found.exposures,
                "reaches": found.reaches,
                "alarms": found.alarms,
                "notes": found.notes,
                "ledger": released,
            }
        )
    else:
        trusted = "It is trusted: pinned, or signed with a pinned key." if pins else ""
        which = f"Plan {plan or 'none'}; fingerprint of this file {known['fingerprint']}"
        for line in filter(None, (found, promise, which, distrust or trusted, *agreed.lines, released)):
            tell(line)
        if not (found.alarms or distrust or agreed.objection or released):
            if found.summed:  # its messages are for the sum alone, and a bare one is refused
                tell_next("agent", sanitizer, "--broker", "mqtts://HOST:8883", "--cert", "KEYS", "--begin")
            else:
                tell_next("sanitize", sanitizer, "--in", "readings.csv", "--out", "messages.csv")
    if pin:
        _pin(sanitizer, content, found.alarms, distrust, say=not json)
    return 1 if found.alarms or distrust or agreed.objection or (released and released.problems) else 0


def _trusted(path: Path, content: bytes, pins: Sequence[Trust]) -> tuple[Statement | None, str]:
    """(what was signed, why the file is not trusted)."""
    from veilnet.io.trust import require_trust

    try:
        return require_trust(path, content, pins), ""
    except InvalidPlan as error:
        return None, str(error)


def _pin(sanitizer: Path, content: bytes, alarms: Sequence[str], distrust: str, *, say: bool) -> None:
    """Pin a file that raised no alarm."""
    from veilnet.io.trust import pin

    if alarms or distrust:
        why = "there is an alarm" if alarms else "it is not trusted"
        tell(f"Not pinned: {why}.")
        return
    written = pin(sanitizer, content)
    if say:
        tell(f"Pinned in {written}: sanitize refuses any other file in its place.")


@dataclass(frozen=True)
class _Agreement:
    """Whether a signed file may follow what ran before: why not, what it tells more, and what was done about it."""

    lines: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    refused: str = ""
    confirmed: bool = False

    @property
    def objection(self) -> bool:
        """Whether sanitize would refuse the file."""
        return bool(self.refused or (self.more and not self.confirmed))


def _promise_of(
    path: Path, plan: str | None, signed: Statement | None, *, summed: bool
) -> tuple[list[str], str]:
    """(a line for each parameter, the whole in words) of the promise signed, or stated by plan.json beside the file.

    summed: whether it is of sums, whatever is stated of agents that help the centre.
    """
    from veilnet.plans.in_words import promise_in_words

    promise, source = None if signed is None else signed.promise, "verified by its signer"
    if promise is None:
        promise, source = _beside(path, plan), "from plan.json, which 'veilnet verify' recomputes"
    if promise is None:
        return [], "No promise is stated: ask the designer for a signed file, or for the whole plan"
    utility, privacy, with_gaps, helped = promise.numbers()
    left = (helped or {}) if summed else None
    lines = promise_in_words(
        promise.public, utility, privacy, promise.constant, with_gaps, promise.changes, left
    )
    seen = "sums alone" if summed else "all messages"
    head = f"Promised against anybody who knows the plan and sees {seen} ({source}):"
    return lines, "\n".join([head, *(f"  {line}" for line in lines)])


def _beside(path: Path, plan: str | None) -> StatedPromise | None:
    """The promise in the plan.json beside an agent's file, if that is of the same plan."""
    from veilnet.io.plan_files import WHOLE
    from veilnet.io.plan_reading import read_plan_folder
    from veilnet.io.statements import StatedPromise
    from veilnet.plans.verification import confirmed

    if plan is None or not path.with_name(WHOLE).exists():
        return None
    try:
        saved = read_plan_folder(path.parent)
        return StatedPromise.of(confirmed(saved)) if saved.plan_id == plan else None
    except (VeilnetError, OSError):
        return None  # what cannot be read states nothing


def _agreement(
    path: Path, sanitizer: Sanitizer, signed: Statement | None, record: Path | None, *, confirm: bool
) -> _Agreement:
    """What the record of earlier plans says of a signed file; with ``confirm`` it is agreed to from now on."""
    if signed is None:
        return _Agreement()
    from veilnet.io.acceptance import accept, accepted_beside, read_accepted, revealed_beyond, step_back

    said = [f"Signed as version {signed.version}, valid until {signed.expires}."]
    before = read_accepted(record or accepted_beside(path))
    refused = step_back(signed, before)
    if refused:
        return _Agreement((*said, f"REFUSED: {refused}."), (), refused)
    more = revealed_beyond(sanitizer, signed, before)
    said += [f"MORE than the plan agreed to: {each}." for each in more]
    if confirm:
        accept(path, sanitizer, signed, record, confirmed=True)
        said.append("Agreed: from now on sanitize runs it, and files that reveal no more.")
    elif more:
        said.append("sanitize refuses it until you agree with --confirm.")
    elif before is not None:
        said.append("It reveals no more than the plan agreed to.")
    return _Agreement(tuple(said), more, "", confirm)
