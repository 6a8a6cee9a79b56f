"""How far to trust the model: what the fit doubted, and what the plan itself says it rests on."""

from __future__ import annotations

from veilnet.model.doubts import LONGEST_WORDS, Doubt
from veilnet.model.network import Network
from veilnet.plans.plan import Plan
from veilnet.report.html import Html, element, join, paragraph, readable

_MOST = 60
_LONGEST = LONGEST_WORDS + 100  # the longest doubt, and what stands before it


def open_doubts(network: Network) -> list[Doubt]:
    """What a fit doubted about the network and nobody has accepted since."""
    return [doubt for doubt in network.doubts if not doubt.accepted]


def doubts_section(plan: Plan) -> Html:
    """The plan's notes, which repeat the doubts one by one."""
    count = len(open_doubts(plan.network))
    if count:
        first = (
            f"The fit that made this network had {count} doubt{'s' if count > 1 else ''} that nobody has dealt with. "
            "Promises hold as far as the model does."
        )
    else:
        network = plan.network
        why = "was not fitted to data" if not network.fitted_rows else "was fitted to data that raised none"
        why = "was fitted, and its doubts were accepted" if network.doubts else why
        first = (
            "Every figure here is computed in the network's linear Gaussian model, and holds as far as that "
            f"does. The network has no open doubts: it {why}."
        )
    points = [element("li", readable(note[:_LONGEST])) for note in plan.notes()[:_MOST]]
    return join([paragraph(first), element("ul", *points) if points else None])
