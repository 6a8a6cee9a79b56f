"""What a forger does to plan.json: change it and make its id right again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from veilnet.io.network_schema import from_document
from veilnet.io.plan_files import PROMISES, plan_id_of
from veilnet.io.sanitizer_files import from_document as sanitizer_of


def forged_id(whole: dict[str, Any]) -> str:
    """The id that a plan.json should bear; its errors where it is none at all."""
    promises = {name: whole[name] for name in PROMISES.kinds if name in whole}
    sanitizers = {agent: sanitizer_of(each, Path("plan.json")) for agent, each in whole["sanitizers"].items()}
    return plan_id_of(promises, from_document(whole["network"], Path()), sanitizers)
