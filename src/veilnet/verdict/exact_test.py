"""Can privacy be free? The exact test, for every prior.

Arbitrarily strong utility-privacy (ASUP) is achievable iff the most privacy at perfect utility, the
*ceiling*, equals the *limit* ε^max set by the prior, for every private parameter. The ceiling is
what the centre can estimate when each agent sends its share Q_i'y_i and nothing else:

    J* = J0 + (Q'H)'(Q'RQ)^-1 (Q'H),    p_j* = tr(G_j J*^+ G_j') / tr(G_j P G_j') - 1,

infinite when a row of G_j leaves range(J*). This mends the paper's Theorem 1 (sufficient, not necessary) and
agrees with its Theorem 2 (mathematics, sections 3 and 6).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from veilnet._core.validation import expect
from veilnet.agent.dither import with_settled_dither
from veilnet.agent.mechanisms import Mechanisms
from veilnet.agent.sanitizer import Sanitizer
from veilnet.bounds.knowledge import knowledge, privacy_limit
from veilnet.model.network import Network
from veilnet.recheck.route import Recheck
from veilnet.verdict.shares import Shares, shares
from veilnet.verdict.verdict import Verdict

__all__ = ["Verdict", "check"]

# Up to this conditioning the bounds call nothing infinite that stays below 1e16.
_INFINITY_IS_SURE = 1e4
# Rank decisions that are tried where rounding is amplified, and the public loss that counts as none.
_FINER = (1.0, 1e-2, 1e-4, 1e-6)
_NO_LOSS = 1e-6  # what a certificate allows two routes to differ by


def check(network: Network) -> Verdict:
    """Can privacy be free in this network? Exact, by a few dense factorisations.

    network: the model. For a stream, privacy is judged with hindsight and utility now.
    """
    expect(network, Network, "network")
    if network.is_stream:
        from veilnet.verdict.streams.exact_test import check_stream

        return check_stream(network)
    network = with_settled_dither(network, lambda tried: _sufficient_shares(tried).sanitizers)
    mine = _sufficient_shares(network)
    sent = mine.sanitizers
    known = knowledge(network, sent)
    ceiling, limit = known.privacy, privacy_limit(network)
    if network.conditioning <= _INFINITY_IS_SURE:
        return Verdict(network, ceiling, limit, mine)
    silent = Mechanisms(network, [replace(each, compression=each.compression[:, :0]) for each in sent.stacks])
    confirmed = _confirmed_infinities(network, sent, ceiling)
    return Verdict(
        network,
        confirmed,
        _confirmed_infinities(network, silent, limit),
        mine,
        frozenset(name for name in confirmed if confirmed[name] != ceiling[name]),
    )


def _sufficient_shares(network: Network) -> Shares:
    """The shares; where rounding is amplified, with rank decisions so fine that nothing public is lost."""
    mine = shares(network)
    if network.conditioning <= _INFINITY_IS_SURE:
        return mine
    for finer in _FINER:
        candidate = shares(network, finer=finer)
        if Recheck(network, candidate.sanitizers).growth(network.measured, 0.0) <= _NO_LOSS:
            return candidate
    return mine


def _confirmed_infinities(
    network: Network, sanitizers: Mapping[str, Sanitizer], growth: Mapping[str, float]
) -> dict[str, float]:
    """Where doubles say "without bound", what 32 digits say: it is for these very sanitizers, so at least this."""
    recheck = Recheck(network, sanitizers)
    return {
        name: recheck.growth(network.private[name], value) if np.isinf(value) else value
        for name, value in growth.items()
    }
