"""A centre that filters: the messages of a stream, row after row, whatever arrives.

``model`` says what the messages are, ``gains`` how much each pattern of messages weighs, ``tracking`` runs over rows
and looks back from later ones; ``sum_model`` and ``adding_up`` are the same for the sum of very many agents.
"""
