"""Plans in other people's libraries: Kalman filters, Stone Soup, data frames (docs/adapters.md).

MATLAB files need no adapter: ``Network.load``, ``Network.save``, ``Plan.load`` and ``Plan.save`` take ``.mat``.
"""
