"""The paper's Algorithm 3, faithful, for comparison.

Read in this order: ``plan`` (from a question to a plan), ``sweeps`` (agent after agent), ``subproblem`` (one agent's
turn).
"""

from veilnet.paper.alternating.sweeps import AlternatingResult, alternate

__all__ = ["AlternatingResult", "alternate"]
