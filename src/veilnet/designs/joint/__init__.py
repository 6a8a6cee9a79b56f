"""The joint solver: all agents at once over the compact set of their shrink matrices (mathematics, section 5).

Read in this order: ``objective`` (loss and privacies as functions of what agents send), ``problem`` (the augmented
Lagrangian), ``chart`` and ``lbfgs`` (how it is minimised), ``run`` (one start to its end), ``snap`` (eigenvalues to 0
and 1), ``race`` (starts side by side), ``hidden`` (directions of x hidden altogether), ``starts`` and ``search`` (the
race of rows), ``hiding`` and ``withholding`` (privacy without bound, and at its limit), ``levels`` (what a curve is),
``flat`` and ``curve`` (both questions asked of one curve). ``settings`` holds the numbers of the search and
what callers say of it.
"""

from veilnet.designs.joint.curve import JointCurve, least_loss
from veilnet.designs.joint.levels import Curve, Levels, Tried
from veilnet.designs.joint.objective import INFORMATION_FLOOR, JointObjective
from veilnet.designs.joint.problem import LeastLoss
from veilnet.designs.joint.race import JointResult
from veilnet.designs.joint.search import followed, least_loss_problem, spent
from veilnet.designs.joint.settings import SETTINGS, SearchOptions
from veilnet.designs.joint.starts import share_projectors
from veilnet.designs.joint.withholding import inside, restricted_to, telling_nothing

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
    "share_projectors",
    "spent",
    "telling_nothing",
]
