"""A network from data.

Read ``fitting`` first, then ``roles``, ``rows`` and ``timeline`` (what is read), ``linear_model``, ``shrinkage`` and
``coarseness`` (the model), ``checks``, ``assessment``, ``report`` and ``doubts`` (how far to trust it).
"""
