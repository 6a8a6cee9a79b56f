"""Which code each agent uses: the search for the least loss of the public score at a given leak.

A code of classes says which classes share a symbol: the symbol is the group whose probabilities add up to most. A
code of a number says which neighbouring cells of the share do. Codes differ between agents: each makes the
distinctions that it is sure of, and together they tell classes apart. What leaks are an agent's errors, since they
differ from person to person.

All codes are searched together by annealing: move a class to another symbol, join two symbols, part one, exchange two
classes, send a symbol by chance (randomised response). A step that is worse now may be taken for what comes after it;
the last steps are greedy. Judged are rows that learn, by shares of layers that did not learn from them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from veilnet._core.progress import Stopped
from veilnet._core.types import Array, Booleans, Integers
from veilnet.symbols.centre import SymbolCentre
from veilnet.symbols.quantity import Quantity, leak_of

_CELLS = 16  # of the share of a number, equally often each
_KEEPS = (1.0, 0.97, 0.92, 0.85, 0.7, 0.5, 0.3)
_HOT, _COLD = 3e-3, 1e-4  # of scores: how much worse a step may be, at first and at last
_LIKELIHOOD = 0.02  # a nat of likelihood counts as so much score: it tells near misses apart
_STRENGTH, _EXPONENT = 4.0, 0.8  # of the centre while it is searched


@dataclass(frozen=True, eq=False)
class Code:
    """An agent's code, and what it would send.

    labels: which symbol each class, or each cell of its share, stands for.
    keep:   how often a symbol is sent as it is.
    sent:   (n,) symbols of the rows that learn; one past the last is silence.
    """

    labels: Integers
    keep: float
    sent: Integers

    @property
    def symbols(self) -> int:
        """How many there are."""
        return int(self.labels.max()) + 1


@dataclass(frozen=True)
class Worth:
    """What codes are worth: the public score, and of each private quantity the leak that a certificate bounds."""

    score: float
    likelihood: float
    leaks: tuple[float, ...]
    symbols: int


class Judge:
    """Judges codes on rows that learn.

    shares:  of each agent, (n, K) or (n, 1); not a number where it is silent.
    public:  what may be known, and ``private`` what must not, numbers as parts of their intervals.
    levels:  of a public number, which quantiles of its share part the cells of each agent; else None.
    """

    def __init__(
        self, shares: Sequence[Array], public: Quantity, private: Sequence[Quantity], rng: np.random.Generator
    ) -> None:
        self.public, self._private = public, private
        self._silent = [np.asarray(~np.isfinite(share).all(axis=1)) for share in shares]
        self._shares, self.levels = [np.nan_to_num(share) for share in shares], None
        if not public.classes:
            cut = [
                _cut(share[:, 0], silent) for share, silent in zip(self._shares, self._silent, strict=True)
            ]
            self._shares, self.levels = [cells for cells, _ in cut], [levels for _, levels in cut]
        self._coins = rng.random((2, len(shares), len(public.values)))

    def finest(self, *, silent: bool = False) -> list[Code]:
        """Every class, or cell, has a symbol of its own; or all have the same one, which says nothing."""
        each = 0 if silent else 1
        return [self.code(k, each * np.arange(share.shape[1]), 1.0) for k, share in enumerate(self._shares)]

    def code(self, agent: int, labels: Integers, keep: float) -> Code:
        """A code, and what the agent would send by it: the group of classes whose probabilities add up to most."""
        many = int(labels.max()) + 1
        found = np.argmax(self._shares[agent] @ np.eye(many)[labels], axis=1)
        if keep < 1:
            toss, drawn = self._coins[:, agent]
            found = np.where(toss >= keep, (drawn * many).astype(np.intp), found)
        return Code(labels, keep, np.where(self._silent[agent], many, found))

    def judge(self, codes: Sequence[Code]) -> Worth:
        """What these codes are worth."""
        name = np.zeros(len(self.public.values), np.int64)
        for code in codes:
            name = name * (code.symbols + 1) + code.sent
        _, first, place = np.unique(name, return_index=True, return_inverse=True)
        cells = np.stack([code.sent[first] for code in codes], axis=1)
        sizes = {str(k): code.symbols for k, code in enumerate(codes)}
        centre = SymbolCentre.counted(self.public, sizes, cells, place, _STRENGTH, _EXPONENT)
        score, likelihood = centre.left_out()
        leaks = [leak_of(each.counted(place, len(cells)), bool(each.classes)) for each in self._private]
        return Worth(score, likelihood, tuple(leaks), sum(sizes.values()))


Goal = Callable[[Worth], float]
"""The higher the better, in units of the public score."""


def search(
    judge: Judge,
    goal: Goal,
    begin: list[Code],
    *,
    steps: int,
    coins: bool,
    rng: np.random.Generator,
    advance: Callable[[float], None],
) -> list[Code]:
    """The best codes found on a walk.

    begin: where the walk begins.
    steps: of it.
    coins: whether symbols may be sent by chance.
    """

    def value(codes: Sequence[Code]) -> float:
        judged = judge.judge(codes)
        return goal(judged) + _LIKELIHOOD * judged.likelihood

    best, codes = begin, begin
    most = now = value(codes)
    moved = _regrouped if judge.levels is None else _joined_neighbours
    for step in range(steps):
        if step % 50 == 0:
            try:
                advance(step / steps)
            except Stopped:
                break
        heat = _HOT * (_COLD / _HOT) ** (step / steps) if step < 0.9 * steps else 0.0
        agent = int(rng.integers(len(codes)))
        code = codes[agent]
        labels, keep = code.labels, code.keep
        toss = rng.random() if coins else 1.0
        if toss < 0.1:
            keep = float(rng.choice(_KEEPS))
        if toss >= 0.05:  # both now and then: a symbol that says too much by itself may do with a coin
            labels = _in_order(moved(code, rng))
        keep = keep if labels.max() else 1.0
        if keep == code.keep and np.array_equal(labels, code.labels):
            continue
        trial = [*codes[:agent], judge.code(agent, labels, keep), *codes[agent + 1 :]]
        found = value(trial)
        if found > now or (heat > 0 and rng.random() < np.exp((found - now) / heat)):
            codes, now = trial, found
            if now > most:
                best, most = codes, now
    for agent, code in enumerate(best):  # by chance only where that pays
        plain = [*best[:agent], judge.code(agent, code.labels, 1.0), *best[agent + 1 :]]
        if code.keep < 1 and value(plain) >= value(best) - _COLD:
            best = plain
    return best


def _in_order(labels: Integers) -> Integers:
    """The same groups, numbered from 0 in the order of their first members: a grouping has one name."""
    _, first, group = np.unique(labels, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[group.reshape(-1)])


def _regrouped(code: Code, rng: np.random.Generator) -> Integers:
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
    return labels


def _joined_neighbours(code: Code, rng: np.random.Generator) -> Integers:
    """Another cut of a line into cells, one or two borders away."""
    borders = np.diff(code.labels) > 0
    if borders.size:
        where = int(rng.integers(len(borders)))
        borders[where] = ~borders[where]
        if rng.random() < 0.5:  # a border that moves
            beside = int(np.clip(where + rng.choice((-1, 1)), 0, len(borders) - 1))
            borders[beside] = ~borders[beside]
    return np.append(0, np.cumsum(borders))


def _cut(share: Array, silent: Booleans) -> tuple[Array, Array]:
    """Which cell each share (n,) is in, as (n, cells) of 0 and 1, and at which levels of its quantiles cells part.

    Of levels that tie it is the last: ties are below an edge.
    """
    levels = np.arange(1, _CELLS) / _CELLS
    quantiles = np.quantile(share[~silent], levels)
    edges = np.unique(quantiles)
    found = np.eye(len(edges) + 1)[np.searchsorted(edges, share)]
    return found, levels[np.searchsorted(quantiles, edges, side="right") - 1]
