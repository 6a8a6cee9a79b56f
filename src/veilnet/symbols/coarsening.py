"""Which code each agent uses: the search for the least loss of the public score at a given leak.

A code of classes says which classes share a symbol: the symbol is the group whose probabilities add up to most. A
code of a number says which neighbouring cells of the share do. Codes differ between agents: each makes the
distinctions that it is sure of, and together they tell classes apart. What leaks are an agent's errors, since they
differ from person to person.

All codes are searched together by annealing, from several starts: move a class to another symbol, join two symbols,
part one, exchange two classes, send a symbol by chance (randomised response). A step that is worse now may be taken
for what comes after it; the last steps are greedy. Judged are rows that learn, by shares of layers that did not learn
from them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from veilnet._core.progress import Stopped
from veilnet._core.types import Array, Integers
from veilnet.symbols.centre import SymbolCentre
from veilnet.symbols.certificate import scaled_to
from veilnet.symbols.log import Quantity

__all__ = ["Code", "Judge", "Worth", "search"]

_CELLS = 16  # of the share of a number, equally often each
_KEEPS = (1.0, 0.97, 0.92, 0.85, 0.7)
_HOT, _COLD = 3e-3, 1e-4  # of scores: how much worse a step may be, at first and at last
_LIKELIHOOD = 0.02  # a nat of likelihood counts as so much score: it tells near misses apart
_STEPS_EACH, _FEWEST_STEPS = 40, 300  # for each class or cell of each agent
_STRENGTH, _EXPONENT = 4.0, 0.8  # of the centre while it is searched


@dataclass(frozen=True, eq=False)
class Code:
    """An agent's code: which symbol each class, or each cell of its share, stands for, and how often it is kept."""

    labels: Integers
    keep: float = 1.0

    @property
    def symbols(self) -> int:
        """How many there are."""
        return int(self.labels.max()) + 1


@dataclass(frozen=True)
class Worth:
    """What codes are worth: the public score, and per private quantity the leak (see :class:`Judge`)."""

    score: float
    likelihood: float
    leaks: tuple[float, ...]
    symbols: int


class Judge:
    """Judges codes on rows that learn.

    shares:  of each agent, (n, K) or (n, 1); not a number where it is silent.
    public:  what may be known.
    private: with the edges of numbers, as certificates take them.

    The leak is what a certificate bounds: how often the best rule for these rows is right about a private class, or 1
    less the mean square within cells of a private number, in units of its interval.
    """

    def __init__(
        self,
        shares: Sequence[Array],
        public: Quantity,
        private: Sequence[tuple[Quantity, tuple[float, float] | None]],
        rng: np.random.Generator,
    ) -> None:
        self.public = public
        self._private = [
            (len(each.classes), each.values if edges is None else scaled_to(edges, each.values))
            for each, edges in private
        ]
        self._silent = [~np.isfinite(share).all(axis=1) for share in shares]
        self._shares = [np.nan_to_num(share) for share in shares]
        self.edges: list[Array] | None = None
        self.levels: list[Array] | None = None  # which quantiles of its share an agent's edges are
        if not public.classes:
            cut = [_edges(s[~q, 0]) for s, q in zip(shares, self._silent, strict=True)]
            self.edges, self.levels = [edges for edges, _ in cut], [levels for _, levels in cut]
        self._coins = rng.random((2, len(shares), len(public.values)))

    @property
    def agents(self) -> int:
        """How many."""
        return len(self._shares)

    def finest(self) -> list[Code]:
        """Every class, or cell, has a symbol of its own."""
        sizes = [
            s.shape[1] if self.edges is None else len(self.edges[k]) + 1 for k, s in enumerate(self._shares)
        ]
        return [Code(np.arange(size)) for size in sizes]

    def symbols(self, agent: int, code: Code) -> Integers:
        """(n,) what the agent would send; one past its last symbol is silence."""
        many, share = code.symbols, self._shares[agent]
        if self.edges is None:
            found = np.argmax(share @ np.eye(many)[code.labels], axis=1)
        else:
            found = code.labels[np.searchsorted(self.edges[agent], share[:, 0])]
        if code.keep < 1:
            toss, drawn = self._coins[:, agent]
            found = np.where(toss >= code.keep, (drawn * many).astype(np.intp), found)
        return np.where(self._silent[agent], many, found)

    def judge(self, codes: Sequence[Code], symbols: Sequence[Integers]) -> Worth:
        """What these codes are worth, given what each agent would send."""
        sizes = [code.symbols for code in codes]
        name = np.zeros(len(self.public.values), np.int64)
        for many, mine in zip(sizes, symbols, strict=True):
            name = name * (many + 1) + mine
        _, first, place = np.unique(name, return_index=True, return_inverse=True)
        cells = np.stack(symbols, axis=1)[first]
        centre = SymbolCentre.counted(
            self.public, {str(k): many for k, many in enumerate(sizes)}, cells, place, _STRENGTH, _EXPONENT
        )
        score, likelihood = centre.left_out()
        leaks = tuple(_leak(classes, values, place, len(cells)) for classes, values in self._private)
        return Worth(score, likelihood, leaks, sum(sizes))


Goal = Callable[[Worth], float]
"""The higher the better, in units of the public score."""


def search(
    judge: Judge,
    goal: Goal,
    *,
    steps: int,
    starts: int,
    coins: bool,
    rng: np.random.Generator,
    advance: Callable[[float], None],
) -> tuple[list[Code], Worth]:
    """The best codes found, and what they are worth.

    steps:  of each start, at most; the first start is the finest codes, later ones go on from the best so far.
    coins:  whether symbols may be sent by chance.
    """
    best: tuple[float, list[Code], Worth] | None = None
    steps = min(steps, max(_FEWEST_STEPS, _STEPS_EACH * sum(code.symbols for code in judge.finest())))
    for start in range(starts):
        codes = judge.finest() if best is None else list(best[1])
        hot = _HOT if best is None else _HOT / 3
        found = _anneal(judge, goal, codes, steps, hot, coins, rng, partial(_within, advance, start, starts))
        if best is None or found[0] > best[0]:
            best = found
    assert best is not None
    return _without_idle_coins(judge, goal, best)


def _without_idle_coins(
    judge: Judge, goal: Goal, found: tuple[float, list[Code], Worth]
) -> tuple[list[Code], Worth]:
    """The same codes, with symbols sent by chance only where that pays."""
    value, codes, worth = found
    for agent, code in enumerate(codes):
        if code.keep < 1:
            plain = [replace(code, keep=1.0) if k == agent else each for k, each in enumerate(codes)]
            trial = judge.judge(plain, [judge.symbols(k, each) for k, each in enumerate(plain)])
            if _worth(goal, trial) >= value - _COLD:
                value, codes, worth = _worth(goal, trial), plain, trial
    return codes, worth


def _anneal(
    judge: Judge,
    goal: Goal,
    codes: list[Code],
    steps: int,
    hot: float,
    coins: bool,
    rng: np.random.Generator,
    advance: Callable[[float], None],
) -> tuple[float, list[Code], Worth]:
    symbols = [judge.symbols(k, code) for k, code in enumerate(codes)]
    judged = judge.judge(codes, symbols)
    worth = _worth(goal, judged)
    best = worth, list(codes), judged
    moved = _joined_neighbours if judge.edges is not None else _regrouped
    for step in range(steps):
        if step % 50 == 0:
            try:
                advance(step / steps)
            except Stopped:
                break
        heat = hot * (_COLD / hot) ** (step / steps) if step < 0.9 * steps else 0.0
        agent = int(rng.integers(judge.agents))
        code = _tossed(codes[agent], rng) if coins and rng.random() < 0.05 else moved(codes[agent], rng)
        if code is None:
            continue
        sent = judge.symbols(agent, code)
        others = [code if k == agent else each for k, each in enumerate(codes)]
        told = [sent if k == agent else each for k, each in enumerate(symbols)]
        trial = judge.judge(others, told)
        value = _worth(goal, trial)
        if value > worth or (heat > 0 and rng.random() < np.exp((value - worth) / heat)):
            codes, symbols, worth, judged = others, told, value, trial
            if worth > best[0]:
                best = worth, list(codes), judged
    return best


def _within(advance: Callable[[float], None], start: int, starts: int, part: float) -> None:
    advance((start + part) / starts)


def _worth(goal: Goal, judged: Worth) -> float:
    return goal(judged) + _LIKELIHOOD * judged.likelihood


def _regrouped(code: Code, rng: np.random.Generator) -> Code | None:
    """Another grouping of classes, one move away."""
    labels, many, kind = code.labels.copy(), code.symbols, rng.random()
    size = len(labels)
    if kind < 0.5:
        labels[rng.integers(size)] = rng.integers(min(many + 1, size))
    elif kind < 0.8 and many > 1:
        one, other = rng.choice(many, 2, replace=False)
        labels[labels == one] = other
    elif kind < 0.9:
        one, other = rng.integers(size, size=2)
        labels[one], labels[other] = labels[other], labels[one]
    else:
        group = np.flatnonzero(labels == rng.integers(many))
        labels[group[rng.random(len(group)) < 0.5]] = many
    return _renamed(code, labels)


def _joined_neighbours(code: Code, rng: np.random.Generator) -> Code | None:
    """Another cut of a line into cells, one or two borders away."""
    borders = np.diff(code.labels) > 0
    if not borders.size:
        return None
    where = int(rng.integers(len(borders)))
    borders[where] = ~borders[where]
    if rng.random() < 0.5:  # a border that moves
        beside = int(np.clip(where + rng.choice((-1, 1)), 0, len(borders) - 1))
        borders[beside] = ~borders[beside]
    return _renamed(code, np.append(0, np.cumsum(borders)))


def _tossed(code: Code, rng: np.random.Generator) -> Code | None:
    keep = float(rng.choice(_KEEPS))
    return None if keep == code.keep or code.symbols == 1 else replace(code, keep=keep)


def _renamed(code: Code, labels: Integers) -> Code | None:
    labels = np.unique(labels, return_inverse=True)[1].reshape(-1)
    if np.array_equal(labels, code.labels):
        return None
    return Code(labels, code.keep if labels.max() else 1.0)


def _leak(classes: int, values: Array, place: Integers, cells: int) -> float:
    if classes:
        counts = np.bincount(place * classes + values, minlength=cells * classes)
        return float(counts.reshape(cells, classes).max(axis=1).sum() / len(values))
    count, total = np.bincount(place, minlength=cells), np.bincount(place, values, minlength=cells)
    return float(1 - (values @ values - total @ (total / count)) / len(values))


def _edges(share: Array) -> tuple[Array, Array]:
    """Where the cells of a share part, and at which levels; the last of those that tie: ties are below an edge."""
    levels = np.arange(1, _CELLS) / _CELLS
    quantiles = np.quantile(share, levels)
    edges = np.unique(quantiles)
    return edges, levels[np.searchsorted(quantiles, edges, side="right") - 1]
