"""Designs for streams: share filters where privacy is free, searches where it is traded for utility.

Read ``choice`` (which of them answers), then ``perfect``.
"""
