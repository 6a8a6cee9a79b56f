"""Quantiles of the standard normal law with NumPy alone: an agent must not need SciPy to protect a reading.

The quantile is M. J. Wichura's algorithm AS 241, routine PPND16 (Applied Statistics 37, 1988): three ratios of
polynomials of degree seven, one in q² for the middle, two in √(-log p) for the tails, each true to about 1e-16 of
the quantile itself. Tests compare it with 40 digits from 2⁻⁹⁷ to 1/2.
"""

from __future__ import annotations

import numpy as np

from veilnet._core.types import Array

# Coefficients by falling powers, numerator and denominator.
_MIDDLE = (
    (2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4, 4.5921953931549871457e4,
     1.3731693765509461125e4, 1.9715909503065514427e3, 1.3314166789178437745e2, 3.3871328727963666080e0),
    (5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4, 2.1213794301586595867e4,
     5.3941960214247511077e3, 6.8718700749205790830e2, 4.2313330701600911252e1, 1.0),
)  # fmt: skip
_NEAR = (
    (7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258e0,
     3.64784832476320460504e0, 5.76949722146069140550e0, 4.63033784615654529590e0, 1.42343711074968357734e0),
    (1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
     6.89767334985100004550e-1, 1.67638483018380384940e0, 2.05319162663775882187e0, 1.0),
)  # fmt: skip
_FAR = (
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3, 2.65321895265761230930e-2,
     2.96560571828504891230e-1, 1.78482653991729133580e0, 5.46378491116411436990e0, 6.65790464350110377720e0),
    (2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4,
     1.48753612908506148525e-2, 1.36929880922735805310e-1, 5.99832206555887937690e-1, 1.0),
)  # fmt: skip
_MIDDLE_REACH = 0.425  # |p - 1/2| up to which the middle holds (AS 241)
_NEAR_REACH = 5.0  # √(-log p) up to which the nearer tail holds (AS 241)


def lower_quantile(probability: Array) -> Array:
    """z with P(Z < z) = p for a standard normal Z and each 0 < p <= 1/2: never positive.

    All three ratios are computed for every p and one is kept, so that the operations and their number do not
    depend on the draw. The time a sampler takes must not betray how much noise it drew.
    """
    q = probability - 0.5
    root = np.sqrt(-np.log(probability))
    far = root > _NEAR_REACH
    tails = np.where(far, _ratio(_FAR, root - _NEAR_REACH), _ratio(_NEAR, root - 1.6))
    # Beyond its reach the middle's ratio is finite (0.180625 - q² >= -0.07) and is not used.
    middle = q * _ratio(_MIDDLE, _MIDDLE_REACH**2 - q * q)
    return np.where(q < -_MIDDLE_REACH, -tails, middle)


def _ratio(coefficients: tuple[tuple[float, ...], tuple[float, ...]], x: Array) -> Array:
    above, below = (np.full_like(x, row[0]) for row in coefficients)
    for a, b in zip(coefficients[0][1:], coefficients[1][1:], strict=True):
        above *= x
        above += a
        below *= x
        below += b
    above /= below
    return above
