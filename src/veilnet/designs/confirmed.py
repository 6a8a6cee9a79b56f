"""Answers of a search become a plan: the first that the independent recheck confirms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidPlan, InvalidRequest, VeilnetError
from veilnet.agent.sanitizer import Sanitizer
from veilnet.bounds.knowledge import outlook
from veilnet.bounds.streams.gaps import GAP_PRIVACY
from veilnet.model.network import Network
from veilnet.plans.asked import Asked
from veilnet.plans.plan import Plan, make_plan

MARGINS = (1e-8, 1e-6, 1e-4)
"""Targets are aimed at with the first, relative, so that no rounding on the way to the agents eats into them; with
the next one where what came of it was not confirmed."""

Answer = tuple[Mapping[str, Sanitizer], Mapping[str, Any]]
"""What every agent sends, and how that was found."""


def confirmed_plan(
    network: Network, answers: Iterable[Answer], asked: Asked, gap_privacy: float | None = GAP_PRIVACY
) -> Plan:
    """The first answer that the recheck confirms; InvalidPlan, with what to change, where there is none.

    An answer for a stream has to keep its promise to the last bit as it is handed out, too: what a search promises
    there is of messages with a little noise more (:data:`veilnet.designs.streams.objective.FINEST`).
    """
    refusal: VeilnetError | None = None
    for sanitizers, details in _as_long_as_numbers_last(iter(answers)):
        try:
            known = outlook(network, sanitizers) if network.is_stream else None
            if known is None or asked.met_by(-known.utility, known.privacy):
                return make_plan(
                    network, sanitizers, "joint", asked, details=details, known=known, gap_privacy=gap_privacy
                )
        except InvalidPlan as error:
            refusal = refusal or error
        except InvalidRequest as error:  # rounding spoils the steady state of a stream
            if not network.is_stream:
                raise
            refusal = refusal or error
    raise InvalidPlan(_why(network, refusal)) from refusal


def _as_long_as_numbers_last(answers: Iterator[Answer]) -> Iterator[Answer]:
    """The answers up to the first for which floating point does not suffice."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        while True:
            try:
                yield next(answers)
            except StopIteration:
                return
            except VeilnetError:
                raise
            except (np.linalg.LinAlgError, ValueError):
                return  # no convergence, or an overflow on the way: the caller says what to change


def _why(network: Network, refusal: VeilnetError | None) -> str:
    if network.is_stream:
        return (
            f"{refusal or 'what the search promised does not hold of what would be sent'}; aiming higher did not "
            "help. Ask for a privacy further from its limit, or drop readings that nearly repeat others"
        )
    met = "the search met numbers beyond floating point"
    return (
        f"{met if refusal is None else f'{refusal}; aiming higher did not help'}. The network amplifies rounding "
        f"{network.conditioning:.1g}-fold: ask for a privacy further from its limit, or scale and reduce the "
        "parameters of x until fewer of them are nearly indistinguishable"
    )
