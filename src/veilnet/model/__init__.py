"""The model y_i = H_i x + n_i: a network, what is known beforehand, and how its readings err.

Read ``network`` first (``arguments`` checks what it is given), then ``prior``, ``noise`` and ``readings`` (names,
limits, resolution); for rows that follow one another ``dynamics`` and ``coloured``, for a model known to within a few
percent ``model_error``. ``lattice`` finds a resolution in readings, ``complex`` turns complex models into real ones,
``standard_form`` removes units for the solvers.
"""
