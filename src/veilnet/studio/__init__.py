"""The studio: the report, live in a browser on this machine. Needs the extra ``studio``.

``workbench`` holds what is on the table and answers; ``jobs`` runs what takes longer in a process of its own, with
the functions of ``tasks``; ``views`` draws with the pieces of the report; ``guard`` lets only this page in; ``app``
is the list of addresses, ``serving`` starts it. The page itself (``page/``) is plain HTML, CSS and JavaScript.
"""
