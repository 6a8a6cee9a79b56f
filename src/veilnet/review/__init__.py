"""What an agent's owner asks of a sanitizer before and while it runs. Nothing here releases a number.

``inspection``: what it would reveal of each reading, with ``packing`` (two readings in one number) and
``filter_response`` (what a memory lets through). ``order``: whether it tells more than the one that was agreed to.
``lattice_watch``: whether the readings are what its file says.
"""
