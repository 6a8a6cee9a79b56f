"""The joint solver: all agents at once over the compact set of their shrink matrices (mathematics, section 5).

Read in this order: ``problem`` (the information as a function of what agents send), ``objective`` (the augmented
Lagrangian), ``chart`` and ``lbfgs`` (how it is minimised), ``run`` (one start to its end), ``starts`` (where to
start), ``snap`` (eigenvalues to 0 and 1), ``hidden`` (one direction of x hidden altogether), ``search`` (many
starts), ``hiding`` and ``withholding`` (privacy without bound, and at its limit), ``levels`` (what a curve is),
``curve`` (both questions asked of one curve) and ``solver`` (the two questions). ``settings`` holds the numbers of
the search, ``telling`` what callers say of it.
"""

from veilnet.designs.joint.curve import JointCurve
from veilnet.designs.joint.levels import Curve
from veilnet.designs.joint.objective import INFORMATION_FLOOR, JointObjective
from veilnet.designs.joint.problem import MostPrivacy, Problem
from veilnet.designs.joint.search import followed, least_loss_problem
from veilnet.designs.joint.settings import SETTINGS
from veilnet.designs.joint.solver import JointResult, least_loss, most_privacy
from veilnet.designs.joint.starts import share_projectors
from veilnet.designs.joint.telling import SearchOptions
from veilnet.designs.joint.withholding import inside, telling_nothing, within

__all__ = [
    "INFORMATION_FLOOR",
    "SETTINGS",
    "Curve",
    "JointCurve",
    "JointObjective",
    "JointResult",
    "MostPrivacy",
    "Problem",
    "SearchOptions",
    "followed",
    "inside",
    "least_loss",
    "least_loss_problem",
    "most_privacy",
    "share_projectors",
    "telling_nothing",
    "within",
]
