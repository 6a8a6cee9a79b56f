"""Only the sum: agents of a group add up their messages before anybody sees them (docs/explanation/sums.md).

A group of agents is one larger agent. Its message is z = C (y - offset) + ξ with y the readings of all members side
by side; member i computes its own part z_i = C_i (y_i - offset_i) + ξ_i, C_i its columns of C, and z = Σ_i z_i. Masks
(or two centres) let the centre see z and no z_i. So check, design, frontier, certificate, streams and audit are those
of the *merged* network, in which groups take the place of agents, and this room only merges and hands out.

Read in this order:

- ``merging``:   groups as larger agents: the merged network, and what each member does of the group's sanitizer.
- ``handing_out``: what each member does of its group's sanitizer, on one grid, modulo how many bits.
- ``program``:   one group of all with a full prior: every trade-off, exactly, by a program in J variables.
- ``collusion``: what the centre knows with one or two agents on its side; ``comparing`` sets it beside shares.
- ``masks``, ``shamir``, ``terms``, ``rounds`` (an agent), ``opening`` (the centre): the protocol;
  ``two_centres``: another one.

What a member's file holds
--------------------------
It is a sanitizer's file like any other (:mod:`veilnet.io.sanitizer_files`), with C_i, Θ_i, grid, dither, limits, and
a memory on a stream. A table ``summed`` beside it, ``sanitizer.summed``, is a
:class:`veilnet.agent.membership.Membership`:

    group      the name of the group
    members    names of all its members, in order, this agent among them
    threshold  how many members must be there for a sum to be opened
    bits       k: masks are added modulo 2^k, 1 <= k <= 64, one for all members and numbers of the group

All members of a group send as many numbers (``sanitizer.sent``), on one grid (``sanitizer.grid``, powers of two).
A message is thus a vector of whole numbers of steps, ``membership.whole(z, grid)`` (int64), and modulo 2^k of
``membership.residues(whole)`` (uint64). The centre turns the sum of residues modulo 2^k back into a sum of messages
by ``membership.opened(residues, grid)``: exact, since k is such that no sum of members can reach 2^(k-1) steps.
An agent with ``summed`` never sends a bare message: ``Sanitizer.sanitize`` refuses unless ``rng=`` says that it is a
simulation; ``Sanitizer.release(rows, source)`` and ``Stream`` give the numbers that the protocol masks.

What the centre's file holds
----------------------------
``center.json`` has the model of the groups' sums, as of any agents' messages, and a table ``groups``: for each
group the same ``members``, ``threshold``, ``bits`` and ``grid``, and for rows the law of what each member adds.
``Fusion.estimate`` takes group -> sum, or member -> message, which it adds up (a simulation); ``missing=`` names
members that are not in the sums, and the estimate then uses the weights of those who are, with its error stated.
"""
