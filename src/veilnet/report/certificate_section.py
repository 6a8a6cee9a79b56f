"""The certificate: every promise beside what another route found, and what no plan can beat."""

from __future__ import annotations

import numpy as np

from veilnet._core.words import counted, join_names, plain_number
from veilnet.plans.in_words import finding_in_words, growth_in_words, quality
from veilnet.plans.plan import Plan
from veilnet.report.html import Html, details, element, join, paragraph, shown, table
from veilnet.report.words import names_of
from veilnet.verdict.verdict import Verdict

_PROMISES = "Promises, and what was found: a variance is the square of an error"
_MEASURES = (
    "Promises in the paper's measures: a utility of 0 is perfect; a privacy of p makes an error variance 1 + p times "
    "as large"
)
_COLUMNS = ("promise", "promised", "found", "confirmed")


def certificate_section(plan: Plan) -> Html:
    """Whether the promises were confirmed, one by one."""
    confirmed = (
        "Every promise was recomputed from the network and the sanitizers alone, by a second method, and confirmed."
        if plan.certificate.ok
        else f"NOT confirmed, do not use this plan: {plan.certificate.complaint()}."
    )
    public = join_names(list(plan.network.public))
    rows = [
        [
            shown(finding_in_words(each.what, public)),
            growth_in_words(each.what, each.promised),
            growth_in_words(each.what, each.found),
            "yes" if each.ok else "NO",
        ]
        for each in plan.certificate.findings
    ]
    return join(
        [
            paragraph(confirmed, class_=None if plan.certificate.ok else "alarm"),
            paragraph(quality(plan)),
            table(_PROMISES, _COLUMNS, rows, numeric=(1, 2), class_="promises"),
        ]
    )


def symbols(plan: Plan, verdict: Verdict) -> Html:
    """The paper's symbols and their values here, folded."""
    network = plan.network
    rows = [
        ["x, L", "the hidden parameters and their number", str(network.L)],
        ["S, N", "agents, and readings of all agents together", f"{network.S}, {network.N}"],
        ["y_i = H_i x + n_i", "the readings of agent i; n_i is their noise", ""],
        [
            "z_i = C_i y_i + ξ_i",
            "what agent i sends; ξ_i is the noise it adds",
            counted(sum(plan.sent.values()), "number"),
        ],
        ["u = U x", "what may be known", names_of(list(network.public))],
        [
            "u(C) = 1 − tr(U P̃ U′)/tr(U P U′)",
            "utility; 0 is perfect, below it is lost",
            plain_number(plan.utility),
        ],
        ["g_j = G_j x", "what must not be known", names_of(list(network.private))],
    ]
    for name in list(network.private)[:20]:
        rows += [
            [
                f"p({shown(name)}) = tr(G P̃ G′)/tr(G P G′) − 1",
                "privacy of this plan",
                plain_number(plan.privacy[name]),
            ],
            [
                f"ceiling({shown(name)})",
                "the most privacy at perfect utility",
                plain_number(verdict.ceiling[name]),
            ],
            [f"ε_max({shown(name)})", "privacy if nothing were sent", plain_number(verdict.limit[name])],
        ]
    targets = {**plan.targets, **plan.worst_targets}
    rows += [
        [f"ε({shown(name)})", "privacy that was asked for", plain_number(each)]
        for name, each in targets.items()
        if each
    ]
    rows += [
        ["method", "how the plan was found", plan.method],
        [
            "gap",
            "how much better the best plan can be at most",
            "not proved" if np.isinf(plan.gap) else plain_number(plan.gap),
        ],
    ]
    return details(
        "In the paper's symbols",
        paragraph(
            "P and P̃ are the Cramér–Rao bounds on the error covariance of x from raw readings and from what is "
            "sent; "
            "in the linear Gaussian model they are what the best attacker reaches. Errors here are roots of their "
            "traces: a privacy p makes an error ",
            element("span", "√(1 + p)"),
            " times as large.",
        ),
        table("Symbols and their values", ("symbol", "meaning", "here"), rows, class_="symbols"),
        table(_MEASURES, _COLUMNS, _in_measures(plan), numeric=(1, 2), class_="certificate"),
    )


def _in_measures(plan: Plan) -> list[list[str]]:
    return [
        [shown(each.what), plain_number(each.promised), plain_number(each.found), "yes" if each.ok else "NO"]
        for each in plan.certificate.findings
    ]
