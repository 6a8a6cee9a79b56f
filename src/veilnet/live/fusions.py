"""What a centre does with messages of a plan, whatever kind of plan: numbers are fused, symbols looked up in a table.

Estimators ask a fusion for ``agents``, ``sent``, ``is_stream``, ``gate``, ``keep`` and ``estimate``; :class:`Fusion`
has them, and :class:`SymbolFusion` has them for plans of symbols. Its estimate of a number is an
:class:`~veilnet.centre.estimates.Estimate` like any other. Of a class it has the chance of each value instead.

What is for symbols alone is imported where it is used: with it comes scipy.stats, half of a centre's start.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from veilnet._core.types import Array
from veilnet.centre.contradictions import Contradiction
from veilnet.centre.estimates import Estimate
from veilnet.centre.fusion import Fusion
from veilnet.centre.streams.sum_model import SumModel
from veilnet.centre.sum_parts import SumParts
from veilnet.io.centre_files import centre_from_bytes
from veilnet.symbols.agent_files import is_symbol_file
from veilnet.symbols.centre import SymbolCentre

WINDOW = 500  # messages of an agent whose law is compared with the counted one
FALSE_ALARM = 1e-4  # of all agents together, in one window of each: at an epoch a minute, once in ten years


@dataclass(frozen=True, eq=False)
class ClassEstimate:
    """What the symbols of one epoch say of a class.

    label:   its name, and ``classes`` its values.
    public:  (K,) the chance of each value.
    missing: agents from which nothing arrived.
    """

    label: str
    classes: tuple[Any, ...]
    public: Array
    missing: tuple[str, ...]

    contradicting = ()  # a symbol cannot be tested against a model
    covariance = np.zeros((0, 0))

    @property
    def value(self) -> Any:
        """The most likely one."""
        return self.classes[int(np.argmax(self.public))]


class SymbolFusion:
    """The centre of a plan of symbols, as estimators of rows use it; ``model`` is itself."""

    is_stream, gate, keep, step, units = False, None, False, None, ("",)

    def __init__(self, centre: SymbolCentre, plan: str) -> None:
        self.centre, self.plan = centre, plan
        self.labels = (centre.public,)
        self.agents = tuple(centre.agents)
        self.sent = dict.fromkeys(centre.agents, 1)

    @property
    def classes(self) -> dict[str, tuple[Any, ...]]:
        """Name of the public quantity -> its values; empty where it is a number."""
        return {self.centre.public: self.centre.classes} if self.centre.classes else {}

    @property
    def model(self) -> Any:
        """What is known of the messages."""
        return self

    def estimate(self, messages: Mapping[str, Array]) -> Estimate | ClassEstimate:
        """The public quantity, from agent -> (1,) its symbol, of whatever agents."""
        symbols = {agent: int(values[0]) for agent, values in messages.items()}
        found = self.centre.estimate(dict.fromkeys(self.agents, -1) | symbols)
        if found.probabilities is not None:
            return ClassEstimate(self.centre.public, self.centre.classes, found.probabilities, found.missing)
        return Estimate(
            np.array([found.public]),
            self.labels,
            self.units,
            np.zeros(1, np.intp),
            np.full((1, 1, 1), found.deviation**2),
            np.ones((1, 1), bool),
            (found.missing,),
        )


AnyFusion: TypeAlias = Fusion | SymbolFusion
LiveEstimate: TypeAlias = Estimate | ClassEstimate


def fusion_of(
    document: bytes, path: Path, *, gate: float | None = None, keep: bool = False
) -> Fusion | SymbolFusion:
    """The fusion of a centre's file, of a plan of numbers or of symbols; ``path`` only names the file in errors.

    gate, keep: for messages that can be tested: not symbols, nor those that are added up.
    """
    if is_symbol_file(document):
        from veilnet.symbols.files import centre_of_bytes

        return SymbolFusion(*centre_of_bytes(document, path))
    model = centre_from_bytes(document, path)
    gate = None if isinstance(model, SumModel) else gate
    return Fusion(model, gate=gate, keep=keep and gate is not None)


def restored(
    fusion: AnyFusion, public: Array, covariance: Array, missing: Sequence[str], doubted: Sequence[str]
) -> LiveEstimate:
    """An estimate of one epoch as it was, from what is kept of it; ``doubted`` are agents that contradicted."""
    if isinstance(fusion, SymbolFusion) and fusion.centre.classes:
        return ClassEstimate(fusion.centre.public, fusion.centre.classes, public, tuple(missing))
    model = fusion.model
    # its errors are in the covariance already
    held = {} if isinstance(fusion, SymbolFusion) else model.held_out
    return Estimate(
        public,
        model.labels,
        model.units,
        np.zeros(1, np.intp),
        np.where(np.isnan(covariance), np.inf, covariance)[None],
        np.isfinite(public)[None],
        (tuple(missing),),
        tuple(Contradiction(0, agent, math.nan, math.nan, joint=False) for agent in doubted),
        {label: replace(each, beyond=0.0) for label, each in held.items()},
    )


def sums_of(fusion: AnyFusion) -> Mapping[str, SumParts]:
    """group -> what its members add, where agents add up their messages."""
    plain = isinstance(fusion, SymbolFusion) or isinstance(fusion.model, SumModel)
    return {} if plain else fusion.model.sums


def estimated(fusion: AnyFusion, sent: Mapping[str, Array]) -> LiveEstimate:
    """The estimate of an epoch from what was sent; a sum that lacks members has flags of them behind its numbers."""
    sums = sums_of(fusion)
    if isinstance(fusion, SymbolFusion) or not sums:
        return fusion.estimate(sent)
    numbers, missing = dict(sent), list[str]()
    for group, parts in sums.items():
        there = np.full(len(parts.members), group in sent)
        if group in sent and len(sent[group]) > len(parts.grid):
            numbers[group], there = np.split(sent[group], [len(parts.grid)])
        missing += [member for member, flag in zip(parts.members, there, strict=True) if not flag]
    return fusion.estimate(numbers, missing=missing)


def senders(fusion: AnyFusion) -> tuple[str, ...]:
    """Who sends by a plan: its agents, and the members of those that are groups."""
    sums = sums_of(fusion)
    return tuple(
        name for agent in fusion.agents for name in (sums[agent].members if agent in sums else (agent,))
    )


class SymbolWatch:
    """Whether agents still send by the law that certificates counted, window after window.

    A missed reading counts as silence, which the law has too; an agent that is not heard counts as nothing.
    """

    def __init__(self, fusion: SymbolFusion) -> None:
        self._centre = fusion.centre
        self._seen: dict[str, list[int]] = {agent: [] for agent in fusion.agents}

    def tell(self, agent: str, values: Array | None) -> bool:
        """Take in a message; whether a window ends with it whose law is another."""
        seen = self._seen[agent]
        seen.append(-1 if values is None else int(values[0]))
        if len(seen) < WINDOW:
            return False
        from veilnet.symbols.drift import symbol_drift

        rate = FALSE_ALARM / len(self._seen)
        self._seen[agent] = []
        return bool(symbol_drift(self._centre, {agent: np.array(seen)}, false_alarm=rate).changed)
