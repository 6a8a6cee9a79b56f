"""``veilnet sign``: the designer of a plan signs its files."""

from __future__ import annotations

from pathlib import Path

from veilnet._core.errors import InvalidPlan, InvalidRequest
from veilnet.cli._command_line import JSON, argument, option
from veilnet.cli._shared import print_json, tell


def command(
    plan: Path | None = argument("Plan folder.", default=None),
    key: Path | None = option("--key", "Secret key (PEM)."),
    new_key: Path | None = option("--new-key", "Create a key pair: secret half here, public half beside it."),
    version: int | None = option(
        "--version",
        "Version number, which must increase; by default the time, as 20261117093000.",
        at_least=1,
    ),
    days: int | None = option("--days", "Validity in days (default 365).", at_least=1),
    json: bool = JSON,
) -> None:
    """Verify a plan and sign all its files (Ed25519, DSSE envelopes beside them).

    Agents then trust the key instead of each file: veilnet sanitize kitchen.json --trust designer.pub. Distribute
    the public key over another channel than the plan. Agents refuse an older version than one they ran, and expired
    ones: sign again before that.
    """
    from veilnet.cli._symbols import is_symbols, unconfirmed
    from veilnet.io.signing import make_key, sign_files
    from veilnet.io.statements import StatedPromise
    from veilnet.plans.verification import load_plan

    if new_key is None and (plan is None or key is None):
        raise InvalidRequest("sign: expected a plan and --key FILE, or --new-key FILE to make a key first")
    answer: dict[str, object] = {}
    if new_key is not None:
        secret, public = make_key(new_key)
        answer |= {"secret": secret, "public": public}
        key = key or secret
        if not json:
            tell(f"Keep {secret} to yourself; hand {public} to the agents.")
    if plan is not None and key is not None:
        # nobody signs what does not hold
        promise = None
        if is_symbols(plan):
            for reason in unconfirmed(plan)[1]:
                raise InvalidPlan(f"{reason}; save the plan again")
        else:
            promise = StatedPromise.of(load_plan(plan))
        files = sorted(plan.glob("*.json"))
        written, statement = sign_files(files, key, version=version, days=days, promise=promise)
        answer |= {"signed": written, "version": statement.version, "expires": statement.expires}
        if not json:
            tell(
                f"Signed {len(written)} files of {plan} as version {statement.version}, valid until "
                f"{statement.expires}."
            )
    if json:
        print_json(answer)
