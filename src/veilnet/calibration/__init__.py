"""A network from data.

Read ``fitting`` first, then ``roles``, ``rows`` and ``timeline`` (what is read), ``limits`` and ``outliers``
(what is left out), ``linear_model``, ``shrinkage`` and
``coarseness`` (the model), ``checks``, ``assessment``, ``report`` and ``doubts`` (how far to trust it).
"""
