"""A network from data.

Read ``fitting`` first, then ``roles``, ``rows`` and ``timeline`` (what is read), ``limits`` and ``outliers`` (what
is left out), ``linear_model``, ``shrinkage`` and ``coarseness`` (the model), ``noise_memory``,
``likelihood``, ``stream_model`` and ``stream_report`` (how rows follow one another), ``checks``, ``assessment``,
``report`` and ``doubts`` (how far to trust it). For secrets of few values: ``stretches`` of time that nobody learned
from, ``classes`` and ``classifiers``, and ``dependence`` among rows; the audit judges on data by the same.
"""
