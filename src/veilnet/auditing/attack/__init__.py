"""What can be learned from what is sent? ``simulation`` and ``held_out`` make rows, ``attackers`` learn from them.

``lattice_points``, ``lattice`` and ``lattice_rows`` attack readings that lie on a lattice.
"""
