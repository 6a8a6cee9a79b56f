"""A centre that filters: the messages of a stream, row after row, whatever arrives.

``model`` says what the messages are, ``gains`` what each pattern of messages tells, ``tracking`` runs over rows, and
``smoothing`` looks back from later ones.
"""
