"""How few bits a row needs: the coarsest grid that costs the public error no more than was allowed.

An agent rounds each number it sends to a public grid of step q, after uniform dither of one step where its noise does
not blur the boundaries (:mod:`veilnet.agent.grid`). What rounding adds has mean zero whatever the number is, and
variance D = q²/6 on average (q²/12 where noise does the blurring).

**What it costs.** With K the centre's gain, the estimate that ignores rounding is off by K D K' more. The best one
counts D as noise and is off by no more than that: Σ_k |K_k|² D_k <= allowed · tr(U P̃ U') is enough. A bit saved on
one number is worth as much as on another, so that all share the cost alike: q_k² |K_k|² is the same for every k, but
for powers of two. What these leave over doubles the steps that cost least.

**What it hides.** Rounding looks at the number alone: no attacker learns more (data processing), so every promise
stays. That linear attackers learn less is stated beside it and not promised: the noise of rounding is not Gaussian.

**Bits.** A number of deviation s by the model becomes k steps with chance P(k) = (s/q)(ψ_{k+1} - 2ψ_k + ψ_{k-1}),
ψ_k = ψ(kq/s), ψ(x) = xΦ(x) + φ(x), with dither, and Φ((k+½)q/s) - Φ((k-½)q/s) without. An entropy coder needs
-Σ P(k) log2 P(k) bits; far below s that is ½ log2(2πe(s² + D)/q²).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from veilnet._core.errors import InvalidRequest
from veilnet._core.linalg import positive_root
from veilnet._core.types import Array
from veilnet.agent.mechanisms import Mechanisms, Sanitizers, as_rounded, mechanisms
from veilnet.bounds.knowledge import knowledge, message_covariance, own_covariances
from veilnet.centre.messages import centre_model
from veilnet.model.network import Network

_COARSEST = 1.0  # steps go up to the deviation of a number: the variance of rounding is q²/6 up to 3e-9 of it
_FINE = 16.0  # deviations of so many steps: the logarithm is exact to nine digits
_TAIL = 9.0  # deviations beyond which nothing is counted: chances below 1e-18
_TRIES = 4


@dataclass(frozen=True)
class Rounding:
    """What a coarse grid saves, costs and hides.

    bits:    agent -> bits a row, each number coded by its own law.
    cost:    by which part the public error variance grows over that of numbers sent in full.
    privacy: p_j of linear attackers, who see rounding as noise; the plan promises its privacy, which is no more.
    """

    bits: Mapping[str, float]
    cost: float
    privacy: Mapping[str, float]

    @property
    def bits_a_row(self) -> float:
        """Of all agents."""
        return float(sum(self.bits.values()))


def read_bits(bits: float, network: Network) -> float:
    """The part of the public error variance that rounding may cost, refused where bits cannot be counted."""
    if isinstance(bits, bool) or not isinstance(bits, int | float | np.number) or not 0 < bits < 1:
        raise InvalidRequest(
            f"bits: expected the part that rounding may cost, between 0 and 1, 0.001 say, found {bits!r}"
        )
    if network.is_stream or network.members:
        raise InvalidRequest(
            "bits: is for single rows whose numbers are sent one by one, not for streams or sums; leave it out"
        )
    if network.prior is None or not network.prior.full:
        raise InvalidRequest(
            "bits: expected a prior that says how far everything spreads, found "
            f"{'none' if network.prior is None else 'one that leaves directions open'}; give a prior covariance"
        )
    return float(bits)


def rounding_of(network: Network, sanitizers: Sanitizers) -> Rounding:
    """What the grids of these sanitizers save, cost and hide."""
    sent = mechanisms(network, sanitizers)
    before, after = knowledge(network, sent), knowledge(network, as_rounded(network, sent))
    noisy = np.zeros(sent.blocks.total)
    for stack in sent.stacks:
        if stack.noise is not None:
            noisy[sent.numbers(stack)] = np.sqrt(np.diagonal(stack.noise, axis1=1, axis2=2))
    each = np.zeros(sent.blocks.total)
    for place, (deviation, step, own) in enumerate(
        zip(_deviations(network, sent), sent.grid, noisy, strict=True)
    ):
        each[place] = entropy(deviation / step, dithered=own < step)
    bits = {agent: float(each[sent.blocks.rows(place)].sum()) for place, agent in enumerate(network.agents)}
    return Rounding(bits, (1 - after.utility) / (1 - before.utility) - 1, after.privacy)


def coarse_steps(network: Network, sent: Mechanisms, finest: Array, allowed: float) -> Array:
    """Powers of two, one for each number sent, no finer than ``finest``, that cost at most ``allowed``."""
    view = centre_model(network, sent).complete
    weights = np.sum(view.gain**2, axis=0) / float(np.trace(view.covariance))
    most = np.exp2(np.floor(np.log2(_COARSEST * _deviations(network, sent))))
    budget, best = allowed, finest
    for _ in range(_TRIES):
        steps = np.maximum(np.minimum(_within(weights, most, budget), most), finest)
        cost = rounding_of(network, sent.with_grids([steps[sent.numbers(s)] for s in sent.stacks])).cost
        if cost <= allowed:
            best = max(best, steps, key=lambda each: float(np.sum(np.log2(each))))
            if np.array_equal(steps, most):
                break
            budget *= max(1.02, allowed / max(cost, 1e-3 * allowed)) if cost > 0 else 2.0
        else:
            budget *= 0.98 * allowed / cost
    return best


def entropy(deviation: float, *, dithered: bool) -> float:
    """Bits of a Gaussian number of so many steps' deviation, rounded to whole numbers."""
    added = 1 / 6 if dithered else 1 / 12
    if deviation > _FINE:
        return float(0.5 * np.log2(2 * np.pi * math.e * (deviation**2 + added)))
    reach = int(np.ceil(_TAIL * deviation)) + 2
    if dithered:
        x = np.arange(-reach - 1, reach + 2) / deviation
        chances = deviation * np.diff(x * ndtr(x) + np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi), 2)
    else:
        chances = np.diff(ndtr((np.arange(-reach, reach + 2) - 0.5) / deviation))
    chances = chances[chances > 0]
    return float(-np.sum(chances * np.log2(chances)))


def _deviations(network: Network, sent: Mechanisms) -> Array:
    """Of every number sent, by the model, (M,)."""
    assert network.prior is not None
    assert network.prior.covariance is not None
    spread = sent.compressed(network.H @ positive_root(network.prior.covariance).T)
    return np.asarray(np.sqrt(np.sum(spread**2, axis=1) + _own_variances(network, sent)))


def _own_variances(network: Network, sent: Mechanisms) -> Array:
    if not network.R.independent:
        return np.diag(message_covariance(network, sent))
    found, own = np.empty(sent.blocks.total), [network.R.stack(group) for group in network.blocks.groups]
    for each in sent.parts():
        own_part = own_covariances(each.stack.compression, own[each.group][each.within], each.stack.noise)
        found[sent.numbers(each.stack)] = np.diagonal(own_part, axis1=1, axis2=2)
    return found


def _within(weights: Array, most: Array, budget: float) -> Array:
    """Steps that share the budget alike, those doubled for which most is left."""
    with np.errstate(divide="ignore"):
        alike = np.sqrt(6 * budget / (len(weights) * weights))
    steps = np.exp2(np.floor(np.log2(np.minimum(alike, most))))
    costs = weights * steps**2 / 6
    left = budget - float(np.sum(costs))
    for place in np.argsort(costs):
        if 3 * costs[place] <= left:
            steps[place] *= 2
            left -= 3 * costs[place]
    return np.asarray(steps)
