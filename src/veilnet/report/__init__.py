"""The report of a plan: one page that needs nothing else, drawn from what the other rooms computed.

``building`` puts it together; each ``*_section`` is one part of it, each ``*_picture`` one kind of drawing with its
table, ``words`` the sentences, ``html`` and ``svg`` the few functions they are written with.
"""
