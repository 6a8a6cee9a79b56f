"""A network from data.

Read ``fitting`` first, then ``linear_model``, ``shrinkage``, ``checks``, ``report``, ``doubts``.
"""
