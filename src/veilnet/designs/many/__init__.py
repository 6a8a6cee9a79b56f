"""Trade-offs of very many agents: prices instead of one matrix per agent (mathematics, section 5).

Loss and privacies depend on what all agents send only through J̃ = J0 + Σ H_i'X_i H_i, an L x L matrix. At an optimum
every X_i minimises <Γ, H_i'X_i H_i> for one and the same Γ, the gradient of the Lagrangian by J̃: Γ says what each
direction of x is worth, and each agent answers with the projector onto what is worth telling. So a search over all
agents is a search over answers to a few price matrices: L x L matrices go to the agents, L x L sums come back, and
nothing is kept for any one agent until the end.

Read in this order: ``recipes`` (how one agent answers, and what all answers add up to), ``mixture`` (the best mixture
of answers, a small problem), ``descent`` (new prices until no answer helps, and the best prices themselves) and
``curve`` (the first prices, from a few agents that stand for all, and the two questions asked).
"""

from veilnet.designs.many.curve import (
    SAMPLE_ENTRIES,
    ManyCurve,
    ManySearch,
    are_many,
    evenly,
    standing_for,
)
from veilnet.designs.many.descent import Effort
from veilnet.designs.many.mixture import Question
from veilnet.designs.many.recipes import Crowd, FormCrowd, Known, Rule, mixed_answers

__all__ = [
    "SAMPLE_ENTRIES",
    "Crowd",
    "Effort",
    "FormCrowd",
    "Known",
    "ManyCurve",
    "ManySearch",
    "Question",
    "Rule",
    "are_many",
    "evenly",
    "mixed_answers",
    "standing_for",
]
