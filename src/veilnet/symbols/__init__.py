"""Symbols: agents say one of a few words each, and nobody learns more from them than was counted.

A linear plan blinds linear attackers. Where the public quantity is a class, or the data are curved, each agent sends
instead one of a few *symbols* z_i, computed from its own readings. The law of what is sent is then a table of
counts, and the largest share of rows in which anybody, by any rule, can guess a private value is bounded by counting.

Read in this order:

- ``deviation``:    the theorem: how far a count can lie below what it counts, for rows and for blocks.
- ``certificate``:  what is promised of each private value, recomputed by a second route.
- ``log``:          the table, what plays which part, and which rows learn and which certify.
- ``agent``:        what runs at an agent: one hidden layer, a code, a range; NumPy alone.
- ``windows``:      several rows as one: mean, spread and slope, at the agent.
- ``shares``:       how that layer is learned, with scikit-learn.
- ``coarsening``:   which code each agent uses: the search for the least loss at a given leak.
- ``centre``:       the public quantity from whatever symbols arrived.
- ``drift``:        whether service still has the law that was counted.
- ``plan``:         all of it together, and its files (``files``, ``agent_files``).
- ``learning``:     :func:`veilnet.learn_symbols`, from a table to a plan.
"""
