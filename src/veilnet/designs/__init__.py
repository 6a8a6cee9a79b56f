"""What each agent should send: one way to design per module or package, one question to each.

Read in this order: ``choice`` (:func:`design` picks the way), ``questions`` (what may be asked), ``perfect`` (privacy
that costs nothing), ``noise`` (Algorithms 1 and 2), ``power`` (limited noise power), ``tradeoff`` (utility against
privacy), ``worst`` (every direction of a parameter), ``joint`` (their solver), and ``frontiers`` (:func:`frontier`,
the whole curve). All of them return a :class:`veilnet.Plan`. The paper's Algorithm 3 is in ``veilnet.paper``.
"""

from veilnet.designs.choice import Method, design
from veilnet.designs.frontiers import Frontier, frontier

__all__ = ["Frontier", "Method", "design", "frontier"]
