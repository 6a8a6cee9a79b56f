"""Designs for streams: share filters where privacy is free, searches where it is traded for utility.

Read ``choice`` (which of them answers), ``perfect``, ``tradeoff`` (utility against privacy), then what it is made of:
``arrays`` and ``knowledge`` (what agents know), ``objective`` (loss and privacies with gradients, by ``doubling``),
``search``, ``curve`` and ``limit``.
"""
