"""What can be learned from what is sent? ``simulation`` and ``held_out`` make rows, ``attackers`` learn from them.

``learners`` are the attackers themselves. ``on_data`` judges them on data from the world, by ``error_rows`` and
``class_rows``: against what the plan ``allowed``. ``verdicts`` says what follows, ``single_rows``
whether the model describes the data.
``lattice_points``, ``lattice`` and ``lattice_rows`` attack readings that lie on a lattice.
"""
