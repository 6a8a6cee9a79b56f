"""The sum over agents of an epoch in parts, for stream processors: :mod:`veilnet.centre.partial_sums`."""

from veilnet.centre.partial_sums import PartialSum, estimate_from, partial_sum

__all__ = ["PartialSum", "estimate_from", "partial_sum"]
