"""A network from data.

Read ``fitting`` first, then ``linear_model``, ``shrinkage``, ``coarseness``, ``checks``, ``report``, ``doubts``.
"""
