"""The joint solver: all agents at once over the compact set of their shrink matrices (mathematics, section 5).

Read in this order: ``objective`` (loss and privacies as functions of what agents send), ``problem`` (the augmented
Lagrangian), ``lbfgs`` (how it is minimised), ``run`` (one start to its end, on a chart), ``race`` (starts side by
side, and eigenvalues to 0 and 1), ``hidden`` (directions of x hidden altogether, privacy without bound and at its
limit), ``starts`` and ``search`` (the race of rows), ``levels`` (what a curve is) and ``curve`` (both questions asked
of one curve). ``settings`` holds the numbers of the search and what callers say of it.
"""

from veilnet.designs.joint.curve import JointCurve, least_loss
from veilnet.designs.joint.hidden import inside, restricted_to, telling_nothing
from veilnet.designs.joint.levels import Curve, Levels, Tried
from veilnet.designs.joint.objective import INFORMATION_FLOOR, JointObjective
from veilnet.designs.joint.problem import LeastLoss
from veilnet.designs.joint.race import JointResult
from veilnet.designs.joint.search import followed, least_loss_problem, spent
from veilnet.designs.joint.settings import SETTINGS, SearchOptions

__all__ = [
    "INFORMATION_FLOOR",
    "SETTINGS",
    "Curve",
    "JointCurve",
    "JointObjective",
    "JointResult",
    "LeastLoss",
    "Levels",
    "SearchOptions",
    "Tried",
    "followed",
    "inside",
    "least_loss",
    "least_loss_problem",
    "restricted_to",
    "spent",
    "telling_nothing",
]
