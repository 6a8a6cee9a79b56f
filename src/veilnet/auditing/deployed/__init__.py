"""Is what is deployed what was planned?

``deployment`` and ``commands`` reach it, ``probing``, ``draws`` and ``law`` test it, ``rows`` reports.
"""
