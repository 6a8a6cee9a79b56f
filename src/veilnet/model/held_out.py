"""How far off a centre was on rows that a fit had not seen, kept with the network that was fitted.

The error that the model states of a public estimate is true where rows follow the model. Rows of a log do not quite:
what readings show of x changes, bends, and was itself estimated. ``fit`` measures what that adds
(:mod:`veilnet.calibration.held_out_errors`), and the centre states it. Promises of privacy stay those of the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from math import isfinite
from typing import Any

from veilnet._core.errors import InvalidNetwork
from veilnet._core.validation import refuse_unknown


@dataclass(frozen=True)
class HeldOut:
    """What rows that were held out of a fit show of one public parameter.

    beyond:          what is to be added, in quadrature, to the standard error that the model states.
    lowest, highest: of the parameter in the rows of the fit: beyond them the model was never tried.
    """

    beyond: float
    lowest: float
    highest: float


def read_held_out(given: Any, labels: Sequence[str]) -> dict[str, HeldOut]:
    """label of a public row -> what was held out shows of it."""
    table = {} if given is None else given
    if not isinstance(table, Mapping):
        raise InvalidNetwork(
            f"held_out: expected public name -> HeldOut, found {type(given).__name__}; fit writes it"
        )
    refuse_unknown(table, labels, "held_out")
    for name, each in table.items():
        if not isinstance(each, HeldOut) or not all(
            type(one) is float and isfinite(one) for one in astuple(each)
        ):
            raise InvalidNetwork(f"held_out.{name}: expected a HeldOut of three numbers, found {each!r}")
        if each.beyond < 0 or each.lowest > each.highest:
            raise InvalidNetwork(f"held_out.{name}: expected beyond >= 0 and lowest <= highest, found {each}")
    return {name: table[name] for name in labels if name in table}
