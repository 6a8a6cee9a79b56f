"""Is what is deployed what was planned?

``deployment`` and ``commands`` reach it, ``probing`` and ``sharing`` test it, ``rows`` reports.
"""
