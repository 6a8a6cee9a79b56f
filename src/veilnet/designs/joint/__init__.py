"""The joint solver: all agents at once over the compact set of their shrink matrices (mathematics, section 5).

Read in this order: ``problem`` (the information as a function of what agents send), ``objective`` (the augmented
Lagrangian), ``chart`` and ``lbfgs`` (how it is minimised), ``run`` (one start to its end), ``starts`` (where to
start), ``snap`` (eigenvalues to 0 and 1), ``hidden`` (one direction of x hidden altogether), ``search`` (many
starts) and ``solver`` (the two questions).
"""

from veilnet.designs.joint.solver import JointResult, least_loss, most_privacy

__all__ = ["JointResult", "least_loss", "most_privacy"]
