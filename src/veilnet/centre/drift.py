"""Is the model still true? A running look at what arrives, for a season, a moved sensor, a battery that runs low.

Under the model the residuals of :mod:`veilnet.centre.contradictions` are standard normal in every row: all together
(q), and those of each agent against the prior and the others (a_i). They are summed over windows of W = 16, 32, ...
16384 rows, one after another. Two things are tested of each window: the mean, W |mean|² being chi-square with f
degrees of freedom, and the scatter about it, a sum of squares that is chi-square with (W - 1) f. A test of windows of
W rows has the false-alarm chance W / (per_rows × number of window lengths × number of tests), so that in per_rows
rows of the model one false alarm is expected at most.

Rows of real streams depend on each other: a room stays warm for hours, which is no drift. How far means are off then
without any drift is bounded by :mod:`veilnet.centre.windows`, and a change has to stand out from that. Scatter
about a window's own mean is held against that of the windows before, 32 at least, and over the first 32 windows of
each length against the model itself: slow rows make it smaller, never larger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import numpy as np

from veilnet._core.bounded import Bounded
from veilnet._core.chi_square import threshold
from veilnet._core.errors import InvalidRequest
from veilnet._core.types import Array, Booleans
from veilnet.centre.contradictions import Contradiction, Redundancy
from veilnet.centre.fusion import Fusion
from veilnet.centre.gate import by_who_sent, redundancy, silent_agents
from veilnet.centre.messages import CentreModel
from veilnet.centre.windows import HISTORY, Keys, Level, Windows, independent, swelling

_SHORTEST = 16
_LENGTHS = 11  # windows of 16 to 16384 rows
_WINDOWS = tuple(_SHORTEST * 2**number for number in range(_LENGTHS))
_MOST_WINDOWS = 512  # at once
_FEWEST = 4  # windows of a length, before one is tested
_INDEPENDENT = 1.5  # squares that scatter no more than so many times as much as of independent rows
_UNUSUAL = 0.01  # chance of windows that count for no more than that in the history
_CERTAIN = 8.0  # deviations of a mean of 32 windows: less than one in 10⁷
_LEAST_BIAS, _LEAST_SCATTER = 0.2, 1.1  # what is smaller is nobody's concern
_SETS_KEPT = 64
_OFTEN = 8  # refusals among 16 rows


@dataclass(frozen=True)
class Change:
    """The model does not hold any more.

    kind:  "bias" (a mean is off), "scatter" (errors are larger than stated) or "contradictions" (the gate keeps
           refusing an agent's messages).
    agent: whose messages; "" for all together.
    since, until: first and last row (number or time) of the window in which it was seen; ``rows`` how many it has.
    size:  bias in deviations of a residual; scatter as a multiple of the stated one; contradictions as a share.
    public: by how many stated deviations each public estimate is off, for a bias of one agent.
    """

    kind: str
    agent: str
    since: int
    until: int
    rows: int
    size: float
    public: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        whose = f"the messages of {self.agent}" if self.agent else "the messages of all agents together"
        if self.kind == "contradictions":
            return f"{whose} contradict the model again and again ({self.size:.0%} of {self.rows} rows)"
        if self.kind == "scatter":
            return f"{whose} scatter {self.size:.2g} times as much as the plan says, over {self.rows} rows"
        against = "from what the prior and the others say" if self.agent else "from what the prior says"
        text = f"{whose} are off by {self.size:.2g} deviations {against}, on average over {self.rows} rows"
        if self.public:
            shown = ", ".join(f"{name} by {share:+.2g}" for name, share in self.public.items())
            text += f", which moves the estimates by so many stated deviations: {shown}"
        return text


class Drift:
    """Watches rows of messages as they come.

    fusion:   of the plan.
    per_rows: in so many rows of the model, at most one false alarm is expected.
    """

    def __init__(self, fusion: Fusion, per_rows: float = 1e6) -> None:
        if not isinstance(fusion, Fusion):
            raise InvalidRequest(f"fusion: expected a veilnet.Fusion, found {type(fusion).__name__}")
        if fusion.is_stream:
            raise InvalidRequest(
                "fusion: messages of a stream are not watched for drift; give that of single rows"
            )
        if not isinstance(per_rows, int | float) or not per_rows >= _SHORTEST * 2**_LENGTHS / 4:
            raise InvalidRequest(
                f"per_rows: expected a number of rows, at least {_SHORTEST * 2**_LENGTHS // 4}, found {per_rows!r}"
            )
        self.fusion = fusion
        self.model = fusion.model
        self._seen = 0
        self.per_rows = float(per_rows)
        self._watches = Bounded[_Watch](_SETS_KEPT)
        self._refusals = Refusals(self.model.agents)

    def look(
        self, messages: Any, rows: Any = None, contradictions: Sequence[Contradiction] = ()
    ) -> list[Change]:
        """What is found to have changed, now that these rows have come.

        messages: as :meth:`veilnet.Fusion.estimate` takes them, many rows or one.
        rows:     their numbers or times, to say where something changed; counted if left out.
        contradictions: those of the estimate, where the fusion has a gate: they count as not sent, and are counted.
        """
        stacked = self.fusion.stacked(messages)
        keys = np.arange(len(stacked)) + self._seen if rows is None else np.atleast_1d(np.asarray(rows))
        self._seen += len(stacked)
        keys, doubts = keys.astype(np.int64), contradictions
        silent = silent_agents(self.model.blocks, stacked)
        changes = self._refusals.look(keys, list(silent), doubts)
        for doubt in doubts:
            silent[self.model.agents.index(doubt.agent), doubt.row] = True
        order, groups = by_who_sent(silent)
        for pattern, members in groups:
            made = partial(_Watch, self.model, pattern, self.per_rows)
            watch = self._watches.get(pattern.tobytes(), made)
            mine = order[members]
            deviations = stacked[mine] - self.model.expected
            deviations[:, np.repeat(pattern, self.model.blocks.sizes)] = 0.0
            changes += watch.look(keys[mine], deviations)
        # an agent that is off makes the others look off from it, but less
        return sorted(changes, key=lambda change: (change.until, -change.size))


class Refusals:
    """Counts how often messages contradict, agent by agent, as rows come; for single rows and for streams."""

    def __init__(self, agents: Sequence[str]) -> None:
        self._agents = agents
        self._before: dict[str, tuple[Booleans, Keys]] = {}

    def look(self, keys: Keys, silent: Sequence[Booleans], doubts: Sequence[Contradiction]) -> list[Change]:
        """The agents that contradict in 8 of 16 rows or more. silent: of each agent, the rows it did not send."""
        changes = []
        for place, agent in enumerate(self._agents):
            sent = np.flatnonzero(~silent[place])
            flags = np.isin(sent, [doubt.row for doubt in doubts if doubt.agent == agent])
            before, keys_before = self._before.get(agent, (np.zeros(0, bool), keys[:0]))
            flags, sent_keys = np.concatenate([before, flags]), np.concatenate([keys_before, keys[sent]])
            count = (
                np.convolve(flags, np.ones(_SHORTEST), "valid") if len(flags) >= _SHORTEST else np.zeros(0)
            )
            for start in np.flatnonzero(count >= _OFTEN)[:1]:
                window = slice(int(start), int(start) + _SHORTEST)
                first = int(sent_keys[window][flags[window]][0])
                share = float(count[start]) / _SHORTEST
                changes.append(
                    Change("contradictions", agent, first, int(sent_keys[window][-1]), _SHORTEST, share)
                )
            self._before[agent] = flags[-_SHORTEST + 1 :], sent_keys[-_SHORTEST + 1 :]
        return changes


class _Watch:
    """The rows in which the same agents sent: sums over windows of growing length."""

    def __init__(self, model: CentreModel, silent: Booleans, per_rows: float) -> None:
        self._model = model
        self._found: Redundancy = redundancy(model, silent)
        tested = [int(place) for place in np.flatnonzero(self._found.freedom)]
        self._names = ["", *(model.agents[place] for place in tested)]
        self._tests = np.concatenate([self._found.joint, self._found.agents])
        numbers = {place: number for number, place in enumerate(tested, 1)}
        self._group = np.array(
            [0] * len(self._found.joint) + [numbers[int(place)] for place in self._found.owner], dtype=np.intp
        )
        self._freedom = np.bincount(self._group, minlength=len(self._names))
        self._shift = self._public_shift(tested)
        self._chance = 1.0 / (per_rows * _LENGTHS * 2 * len(self._names))
        self._rest = np.zeros((0, len(self._tests)))
        self._rest_keys: Keys = np.zeros(0, dtype=np.int64)
        self._levels = [Level(self._group, len(self._names)) for _ in range(_LENGTHS)]

    def look(self, keys: Keys, deviations: Array) -> list[Change]:
        if len(self._found.joint) == 0:
            return []
        residuals = np.concatenate([self._rest, deviations @ self._tests.T])
        keys = np.concatenate([self._rest_keys, keys])
        used = len(residuals) // _SHORTEST * _SHORTEST
        self._rest, self._rest_keys = residuals[used:], keys[used:]
        changes: list[Change] = []
        done = 0
        while done < used:  # some at a time, so that short windows know of long ones, however rows come
            most = np.clip(self._levels[0].count // 4, HISTORY, _MOST_WINDOWS) * _SHORTEST
            some = slice(done, min(used, done + int(most)))
            changes += self._look(keys[some], residuals[some])
            done = some.stop
        return changes

    def _look(self, keys: Keys, residuals: Array) -> list[Change]:
        blocks = residuals.reshape(-1, _SHORTEST, residuals.shape[1])
        windows = Windows(
            blocks.sum(axis=1),
            self._by_group((blocks**2).sum(axis=1)),
            keys[::_SHORTEST],
            keys[_SHORTEST - 1 :: _SHORTEST],
        )
        changes: list[Change] = []
        for number, level in enumerate(self._levels):
            if len(windows.since) == 0:
                break
            if self._levels[0].count >= HISTORY:
                changes += self._test(windows, number)
            changes += self._learn(windows, number)
            windows = level.paired(windows)
        return changes

    def _by_group(self, squares: Array) -> Array:
        sums = np.zeros((len(squares), len(self._names)))
        for group, column in zip(self._group, squares.T, strict=True):
            sums[:, group] += column
        return sums

    def _learn(self, windows: Windows, number: int) -> list[Change]:
        """Add to the history; what it says against the model when it is long enough for the first time."""
        level, length = self._levels[number], _WINDOWS[number]
        young = level.count < HISTORY
        sums = windows.sums
        if not young:  # a change that lasts must not soon be taken for usual
            limits = np.array([_limit(_UNUSUAL, int(f)) for f in self._freedom])
            found = self._by_group(sums**2) / length / np.maximum(1.0, self._widest(level, length))
            sums = sums * np.sqrt(np.minimum(1.0, limits / np.maximum(found, 1e-300)))[:, self._group]
        level.add(sums, self._scatter(windows, length), int(windows.since[0]))
        if not young or level.count < HISTORY:
            return []
        means = level.scatter.mean
        far = means - 1.0 > _CERTAIN * level.scatter.error
        span = level.begun or 0, int(windows.until[-1]), level.count * length
        return [
            Change("scatter", self._names[group], *span, size)
            for group in np.flatnonzero(far)
            if (size := float(np.sqrt(means[group]))) > _LEAST_SCATTER
        ]

    def _scatter(self, windows: Windows, length: int) -> Array:
        """Per window and group, the mean square about the window's own mean, which slow rows do not widen."""
        about = windows.squares - self._by_group(windows.sums**2) / length
        return np.asarray(np.maximum(about, 0.0) / ((length - 1) * np.maximum(self._freedom, 1)))

    def _widest(self, level: Level, length: int) -> Array:
        """Per group, how much sums over windows scatter in their widest direction; 1 for independent rows."""
        return np.array(
            [
                float(np.linalg.eigvalsh(level.sums_squared[np.ix_(mine, mine)])[-1]) / level.count / length
                for mine in (np.flatnonzero(self._group == group) for group in range(len(self._names)))
            ]
        )

    def _test(self, windows: Windows, number: int) -> list[Change]:
        """Hold windows against the model, and against how much those before them scatter."""
        level, length = self._levels[number], _WINDOWS[number]
        if level.count < _FEWEST:
            return []
        changes = []
        chance = self._chance * length
        limits = np.array([_limit(chance, int(freedom)) for freedom in self._freedom])
        swellings = np.ones(len(self._names))
        alone = independent(self._levels, _WINDOWS, self._freedom)
        if not alone.all():
            widest = self._widest(level, length)
            dependent = swelling(self._levels, _WINDOWS, number, self._freedom, widest, limits)
            swellings = np.where(alone, 1.0, dependent)
        scatters = self._scatter(windows, length)
        for group, name in enumerate(self._names):
            sums = windows.sums[:, self._group == group]
            biased = np.sum(sums**2, axis=1) / (length * swellings[group]) > limits[group]
            scatter = scatters[:, group]
            wide = scatter > self._widest_scatter(number, group, chance)
            for place in np.flatnonzero(biased | wide):
                span = int(windows.since[place]), int(windows.until[place]), length
                mean = sums[place] / length
                bias, size = float(np.sqrt(np.mean(mean**2))), float(np.sqrt(scatter[place]))
                if biased[place] and bias > _LEAST_BIAS:
                    changes.append(Change("bias", name, *span, bias, self._moved(group, mean)))
                elif wide[place] and size > _LEAST_SCATTER:
                    changes.append(Change("scatter", name, *span, size))
        return changes

    def _widest_scatter(self, number: int, group: int, chance: float) -> float:
        """What a window's mean square about its own mean exceeds with this chance, by what those before it were."""
        level, length = self._levels[number], _WINDOWS[number]
        if level.count < HISTORY:
            return np.inf
        mean, varies = float(level.scatter.mean[group]), float(level.scatter.variance[group])
        squares = (length - 1) * int(self._freedom[group])
        margin = 1.0 + 2.0 * np.sqrt(2.0 / level.count)
        widening = _rounded_up(varies / max(mean, 1e-12) ** 2 * squares / 2 * margin)
        if widening > _INDEPENDENT and length < HISTORY * widening:
            return np.inf  # too few independent rows for a sum of squares to be chi-square
        effective = max(1, int(squares / widening))
        return max(1.0, mean) * _limit(chance, effective) / effective

    def _public_shift(self, tested: Sequence[int]) -> list[Array]:
        """Per group: what a mean of its residuals says the public estimates are off by, in their deviations."""
        silent = self._found.freedom == 0
        view = self._model.view(~silent) if silent.any() else self._model.complete
        present = np.repeat(~silent, self._model.blocks.sizes)
        gain = np.zeros((len(view.gain), self._model.blocks.total))
        gain[:, present] = view.gain
        deviation = np.sqrt(np.diag(view.covariance))
        shifts = [np.zeros((0, 0))]
        for place in tested:
            own = self._model.blocks.rows(place)
            answer = np.linalg.pinv(self._found.agents[self._found.owner == place][:, own])
            shifts.append(gain[:, own] @ answer / deviation[:, None])
        return shifts

    def _moved(self, group: int, mean: Array) -> dict[str, float]:
        if group == 0:
            return {}
        moved = self._shift[group] @ mean
        return {
            name: float(share)
            for name, share in zip(self._model.labels, moved, strict=True)
            if np.isfinite(share)
        }


def _rounded_up(swelling: float) -> float:
    """At least 1, in steps of 2^(1/8), so that limits can be remembered."""
    return float(2.0 ** (np.ceil(8 * np.log2(max(1.0, swelling)) - 1e-9) / 8))


@cache
def _limit(chance: float, freedom: int) -> float:
    return threshold(min(chance, 0.5), freedom)
