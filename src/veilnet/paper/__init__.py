"""The experiments of the paper's section VII, figure by figure, and its claims as code."""

from __future__ import annotations

from veilnet.paper.claims import Claim
from veilnet.paper.runs import Reproduction, measure_draw, reproduce
from veilnet.paper.settings import Settings

__all__ = ["Claim", "Reproduction", "Settings", "measure_draw", "reproduce"]
