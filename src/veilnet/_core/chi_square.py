"""Tails of the chi-square distribution, far out and without loading scipy, which takes longer than fusing.

For *f* degrees of freedom the tail is Γ(f/2, x/2) / Γ(f/2), a finite sum of positive terms that begins with
exp(-x/2) for even f and with erfc(√(x/2)) for odd f. It is summed in logarithms, so that it has all its digits
where the tail itself is no double any more. For many degrees of freedom Legendre's continued fraction is shorter.
"""

from __future__ import annotations

import math

_MANY = 100  # degrees of freedom, from which on the continued fraction is used
_FAR = 25.0  # from here on erfc by its continued fraction, which it agrees with to all digits


def log_tail(x: float, freedom: int) -> float:
    """log P(chi-square with so many degrees of freedom > x)."""
    if x <= 0.0 or freedom == 0:
        return 0.0 if x <= 0.0 else -math.inf
    if math.isinf(x):
        return -math.inf
    half = x / 2
    if freedom > _MANY and x > freedom:
        return _log_by_fraction(half, freedom / 2)
    terms = [-half] if freedom % 2 == 0 else [_log_erfc_root(half)]
    power = 1.0 if freedom % 2 == 0 else 0.5
    while power < freedom / 2:
        terms.append(power * math.log(half) - half - math.lgamma(power + 1))
        power += 1.0
    largest = max(terms)
    return min(0.0, largest + math.log(math.fsum(math.exp(term - largest) for term in terms)))


def threshold(chance: float, freedom: int) -> float:
    """What a chi-square exceeds with this chance; infinite where there is nothing to exceed."""
    if freedom == 0:
        return math.inf
    wanted = math.log(chance)
    low, high = 0.0, float(freedom)
    while log_tail(high, freedom) > wanted:
        low, high = high, high + 4 * math.sqrt(freedom) + 4
    for _ in range(60):
        middle = (low + high) / 2
        if middle in (low, high) or high - low < 1e-12 * high:
            break
        low, high = (middle, high) if log_tail(middle, freedom) > wanted else (low, middle)
    return high


def _log_by_fraction(half: float, power: float) -> float:
    """log Γ(power, half) / Γ(power) for half > power, by Lentz's method."""
    tiny = 1e-300
    bottom = half + 1 - power
    c, d = 1 / tiny, 1 / bottom
    value = d
    for step in range(1, 10_000):
        top = -step * (step - power)
        bottom += 2
        d = 1 / (top * d + bottom or tiny)
        c = bottom + top / c or tiny
        value *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return -half + power * math.log(half) - math.lgamma(power) + math.log(value)


def _log_erfc_root(half: float) -> float:
    """log erfc(√half)."""
    if half < _FAR:
        return math.log(math.erfc(math.sqrt(half)))
    fraction = 0.0
    for step in range(60, 0, -1):
        fraction = step / 2 / ((half if step % 2 == 0 else 1.0) + fraction)
    # erfc(z) = exp(-z²) / √π · z / (z² + (1/2)/(1 + 1/(z² + (3/2)/(1 + ...))))
    return -half + 0.5 * math.log(half / math.pi) - math.log(half + fraction)
