"""From a table to a plan of symbols: learn, choose, certify."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from veilnet._core.errors import Infeasible, InvalidRequest
from veilnet._core.progress import Progress, Stopped, silent, within
from veilnet._core.types import Array, Integers
from veilnet._core.validation import as_number
from veilnet._core.words import three_digits
from veilnet.agent.randomness import noise_source
from veilnet.symbols.agent import Layer, SymbolAgent
from veilnet.symbols.centre import SymbolCentre, calibration_error
from veilnet.symbols.certificate import ClassCertificate, NumberCertificate, SymbolCertificate, scaled_to
from veilnet.symbols.coarsening import Code, Goal, Judge, Worth, search
from veilnet.symbols.deviation import Tally, highest_mean
from veilnet.symbols.log import Log, Quantity, read_log
from veilnet.symbols.plan import SymbolPlan
from veilnet.symbols.shares import LearnedShares, learn_shares, raw_score, score_of

__all__ = ["learn_symbols"]

_STEPS, _STARTS = 4000, 2  # of the search, at 3,000 rows
_ATTEMPTS = ((1.0, 0.9), (2.5, 0.1))  # margin in standard deviations, part of the doubt that may be spent
_TAIL = 0.02  # of a private number, left and right: a value beyond counts as the edge
_WIDENED = 0.25  # of the range of a reading, on each side
_PENALTY = 5.0  # for a leak beyond what was asked, in units of the score


def learn_symbols(
    table: Any,
    agents: Mapping[str, Any],
    public: str,
    private: Any,
    *,
    guessed: float | Mapping[str, float] | None = None,
    public_loss: float | None = None,
    blocks: Any = None,
    confidence: float = 0.95,
    seed: int = 0,
    progress: Progress | None = None,
) -> SymbolPlan:
    """A plan in which each agent sends one of a few symbols, and a bound on what anybody can guess from them.

    table:   name -> column, a pandas or polars frame, a structured array, or the path of a file.
    agents:  agent -> the columns it reads.
    public:  the column that may be known: classes (texts, yes or no, at most 50 whole numbers) or numbers.
    private: columns that must not, likewise.
    guessed: the largest share of rows in which anybody may be right about a private class, one number or
             name -> number; of a private number the least root mean square error, by name. The loss of the public
             score is made small under it.
    public_loss: or the largest drop of the public score that is accepted, below that of raw readings; what can be
             guessed is made small under it. Neither: the fewest symbols that keep the public score.
    blocks:  a column or labels of blocks that are independent of each other (a session, a day). None: every row is
             taken to be independent of the others, and the certificate is as good as that.
    confidence: with which all certificates hold together.
    seed:    of the split, the learning and the search.
    progress: see :data:`veilnet._core.progress.Progress`.

    Half of the blocks learn and choose, the others certify and choose nothing (:mod:`veilnet.symbols.log`). Raises
    Infeasible, with what is possible, where ``guessed`` cannot be certified.
    """
    if guessed is not None and public_loss is not None:
        raise InvalidRequest(
            "guessed, public_loss: give one of the two; the other is made as small as possible"
        )
    learner = SymbolLearner.of(
        table, agents, public, private, blocks=blocks, confidence=confidence, seed=seed, progress=progress
    )
    return learner.keeping(public_loss) if guessed is None else learner.under(learner.leaks(guessed))


class SymbolLearner:
    """The log, what was learned from it, and what may be asked of it."""

    def __init__(
        self,
        log: Log,
        level: float,
        seed: int,
        choosing: np.random.SeedSequence,
        coins: np.random.SeedSequence,
        progress: Progress,
    ) -> None:
        self.log, self.level, self.seed = log, level / len(log.private), seed
        self.confidence = 1 - level
        self._progress = progress
        self._choosing, self._coins = choosing, coins  # apart: what certifies must not choose, nor be chosen
        self.learn = ~log.certify
        self.edges = {name: self._edges_of(each) for name, each in log.private.items()}
        sizes = np.bincount(log.blocks[log.certify])
        self.samples = {
            name: Tally(int(sizes.sum()), int(np.sum(sizes > 0)), int(sizes.max()), bool(each.classes))
            for name, each in log.private.items()
        }

    @classmethod
    def of(
        cls,
        table: Any,
        agents: Mapping[str, Any],
        public: str,
        private: Any,
        *,
        blocks: Any = None,
        confidence: float = 0.95,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> SymbolLearner:
        """What :func:`learn_symbols` asks; several questions may then be asked of what is learned once."""
        level = 1 - as_number(confidence, "confidence", error=InvalidRequest)
        if not 1e-6 <= level <= 0.2:
            raise InvalidRequest(f"confidence: expected 0.8 to 0.999999, found {confidence!r}")
        dealing, choosing, coins = np.random.SeedSequence(seed).spawn(3)
        log = read_log(table, agents, public, private, blocks, np.random.default_rng(dealing))
        return cls(log, level, seed, choosing, coins, progress or silent)

    # --- the two questions

    def under(self, asked: Mapping[str, float]) -> SymbolPlan:
        """The best public score while no leak is larger than asked, certified."""
        for name, most in asked.items():
            self._refuse_below_silence(name, most)
        shares, judge = self._shares
        found: dict[str, SymbolCertificate] = {}
        for margin, part in _ATTEMPTS:
            targets = [self._target(name, most, margin, part) for name, most in asked.items()]
            codes, _ = self._search(judge, _most_score(targets), coins=True)
            if all(code.symbols == 1 for code in codes):
                break
            made = self._agents(shares, judge, codes)
            cells, place = self._certified_cells(made)
            found = self._certificates(place, part)
            if all(self._leak_bound(found[name]) <= most for name, most in asked.items()):
                return self._plan(made, judge, codes, found, cells)
        reached = "; ".join(map(str, found.values())) or "only silence would do"
        raise Infeasible(
            f"guessed: what was asked could not be certified from {int(self.log.certify.sum())} rows that chose "
            f"nothing ({reached}); ask for less, or give more rows"
        )

    def keeping(self, public_loss: float | None) -> SymbolPlan:
        """The smallest leak, or the fewest symbols, while the public score is kept."""
        if public_loss is not None and as_number(public_loss, "public_loss", error=InvalidRequest) < 0:
            raise InvalidRequest(f"public_loss: expected 0 or more, found {public_loss!r}")
        shares, judge = self._shares
        finest = judge.finest()
        best = judge.judge(finest, [judge.symbols(k, code) for k, code in enumerate(finest)])
        slack = math.sqrt(max(0.0, best.score * (1 - best.score)) / int(self.learn.sum()))
        if public_loss is None:
            goal = _fewest_symbols(best.score - slack)
        else:
            thirds = [self.log.fold % 3 == k for k in range(3)]
            raw = float(np.mean([self._raw(self.learn & ~third, self.learn & third) for third in thirds]))
            least = raw - float(public_loss)
            if best.score < least - 2 * slack:
                raise Infeasible(
                    f"public_loss: raw readings score {raw:.3f}, the finest symbols {best.score:.3f}; "
                    f"a loss of {max(0.0, raw - best.score):.3f} is the least that symbols have here"
                )
            goal = _least_leak(min(least, best.score))
        codes, _ = self._search(judge, goal, coins=False)
        made = self._agents(shares, judge, codes)
        cells, place = self._certified_cells(made)
        return self._plan(made, judge, codes, self._certificates(place, 1.0), cells)

    # --- steps

    @cached_property
    def _shares(self) -> tuple[LearnedShares, Judge]:
        try:
            shares = learn_shares(self.log, self.seed, within(self._progress, "learning", 0.0, 0.6))
        except Stopped:
            raise InvalidRequest("progress: asked to stop before anything was learned") from None
        private = [(each.take(self.learn), self.edges[name]) for name, each in self.log.private.items()]
        judge = Judge(
            list(shares.learned.values()), self.log.public.take(self.learn), private, _fresh(self._choosing)
        )
        return shares, judge

    def _search(self, judge: Judge, goal: Goal, *, coins: bool) -> tuple[list[Code], Worth]:
        steps = int(np.clip(_STEPS * 3000 / int(self.learn.sum()), _STEPS / 4, _STEPS))
        advance = within(self._progress, "choosing symbols", 0.6, 0.35)
        rng = _fresh(self._choosing)
        return search(judge, goal, steps=steps, starts=_STARTS, coins=coins, rng=rng, advance=advance)

    def _raw(self, train: Any, test: Any) -> float:
        whole = np.all([np.isfinite(each).all(axis=1) for each in self.log.readings.values()], axis=0)
        return raw_score(self.log, train & whole, test & whole, self.seed)

    def _agents(self, shares: LearnedShares, judge: Judge, codes: list[Code]) -> dict[str, SymbolAgent]:
        made = {}
        for place, ((agent, layer), code) in enumerate(zip(shares.layers.items(), codes, strict=True)):
            rows = self.log.readings[agent][self.learn]
            rows = rows[np.isfinite(rows).all(axis=1)]
            low, high = rows.min(axis=0), rows.max(axis=0)
            wider = _WIDENED * (high - low)
            edges = None
            if judge.levels is not None:
                edges = _edges_in_service(layer, rows, code, judge.levels[place])
            matrix, start = _linear(code, edges)
            words = _meanings(self.log.public, code, edges)
            made[agent] = SymbolAgent(
                agent,
                self.log.columns[agent],
                low - wider,
                high + wider,
                layer,
                matrix,
                start,
                code.keep,
                words,
            )
        return made

    def _certified_cells(self, agents: Mapping[str, SymbolAgent]) -> tuple[Integers, Integers]:
        """The tuples of symbols of the rows that certify, and which of them each row has."""
        source = noise_source(_fresh(self._coins))
        sent = [
            _silence_last(agent.send_or_not(self.log.readings[name][self.log.certify], source), agent.symbols)
            for name, agent in agents.items()
        ]
        cells, place = np.unique(np.stack(sent, axis=1), axis=0, return_inverse=True)
        return cells, place.reshape(-1)

    def _certificates(self, place: Integers, part: float) -> dict[str, SymbolCertificate]:
        certify, found = self.log.certify, {}
        for name, each in self.log.private.items():
            values, blocks = each.values[certify], self.log.blocks[certify]
            blocks = np.unique(blocks, return_inverse=True)[1].reshape(-1)
            confidence = 1 - self.level * part
            edges = self.edges[name]
            made: SymbolCertificate
            if edges is None:
                made = ClassCertificate.of(name, each.classes, values, place, blocks, confidence)
            else:
                made = NumberCertificate.of(name, edges, values, place, blocks, confidence)
            found[name] = made
        return found

    def _plan(
        self,
        agents: Mapping[str, SymbolAgent],
        judge: Judge,
        codes: list[Code],
        certificate: Mapping[str, SymbolCertificate],
        cells: Integers,
    ) -> SymbolPlan:
        # by layers that did not learn from these rows: those in service would make the centre far too sure
        learned = np.stack([judge.symbols(k, code) for k, code in enumerate(codes)], axis=1)
        sizes = {name: agent.symbols for name, agent in agents.items()}
        counts = next(iter(certificate.values())).rows_of_cells
        seen = {
            name: np.bincount(cells[:, k], counts.astype(float), minlength=many + 1).astype(float)
            for k, (name, many) in enumerate(sizes.items())
        }
        alike = next(iter(self.samples.values())).largest
        centre = SymbolCentre.learn(judge.public, sizes, learned).watching(seen, alike)
        certify = self.log.certify
        source = noise_source(_fresh(self._coins))
        sent = {
            name: each.send_or_not(self.log.readings[name][certify], source) for name, each in agents.items()
        }
        held, told = self.log.public.take(certify), centre.estimate(sent)
        off, named = None, told.public
        if told.probabilities is not None:
            off, named = (
                calibration_error(told.probabilities, held.values),
                np.argmax(told.probabilities, axis=1),
            )
        raw = self._raw(self.learn, certify)
        return SymbolPlan(
            agents, centre, certificate, self.confidence, cells, score_of(held, named), raw, off
        )

    # --- what can be asked

    def leaks(self, guessed: Any) -> dict[str, float]:
        """name -> the largest leak that is accepted, of ``guessed`` as :func:`learn_symbols` takes it."""
        private = self.log.private
        if not isinstance(guessed, Mapping):
            numbers = [name for name, each in private.items() if not each.classes]
            if numbers:
                raise InvalidRequest(
                    f"guessed: {numbers[0]} is a number, of which the least error is asked, by name: "
                    f'guessed={{"{numbers[0]}": 1.5}}'
                )
            guessed = dict.fromkeys(private, guessed)
        if set(guessed) != set(private):
            raise InvalidRequest(f"guessed: expected one figure for each of {', '.join(private)}")
        asked = {}
        for name, quantity in private.items():
            figure = as_number(guessed[name], f"guessed[{name!r}]", error=InvalidRequest)
            if quantity.classes and not 0 < figure <= 1:
                raise InvalidRequest(f"guessed[{name!r}]: expected a share of rows, 0 to 1, found {figure:g}")
            if not quantity.classes and not figure > 0:
                raise InvalidRequest(f"guessed[{name!r}]: expected an error above 0, found {figure:g}")
            asked[name] = figure if quantity.classes else 1 - (figure / self._width(name)) ** 2
        return asked

    def _edges_of(self, quantity: Quantity) -> tuple[float, float] | None:
        if quantity.classes:
            return None
        low, high = np.quantile(quantity.values[self.learn], (_TAIL, 1 - _TAIL))
        if not high > low:
            raise InvalidRequest(
                f"{quantity.name}: nearly every row has the same value; give it classes instead"
            )
        return float(low), float(high)

    def _refuse_below_silence(self, name: str, most: float) -> None:
        """What is asked must be possible where every agent is silent."""
        quantity, sample = self.log.private[name], self.samples[name]
        values = quantity.values[self.log.certify]
        if quantity.classes:
            silence = float(np.bincount(values).max())
        else:
            silence = len(values) * (1 - float(np.var(scaled_to(self.edges[name] or (0, 1), values))))
        least = highest_mean(silence, sample, self.level * _ATTEMPTS[0][1])
        if most < least:
            shown = least if quantity.classes else self._width(name) * math.sqrt(max(0.0, 1 - least))
            kind = "share below" if quantity.classes else "error above"
            raise Infeasible(
                f"guessed[{name!r}]: with {sample.rows} rows in {sample.blocks} independent blocks to certify, no "
                f"{kind} {three_digits(shown)} can be certified even of silence; ask for less, or give more rows"
            )

    def _target(self, name: str, most: float, margin: float, part: float) -> float:
        """The leak to search for: with a margin it is still certified."""
        sample = self.samples[name]
        low, high = 0.0, most
        for _ in range(25):
            leak = (low + high) / 2
            alike = math.sqrt(sample.largest)  # rows of a block are partly alike
            above = leak + margin * math.sqrt(leak * (1 - leak) * alike / sample.rows)
            fits = above < 1 and highest_mean(above * sample.rows, sample, self.level * part) <= most
            low, high = (leak, high) if fits else (low, leak)
        return low

    def _leak_bound(self, certificate: SymbolCertificate) -> float:
        if isinstance(certificate, ClassCertificate):
            return certificate.guessed
        width = certificate.edges[1] - certificate.edges[0]
        return 1 - (certificate.error / width) ** 2

    def _width(self, name: str) -> float:
        low, high = self.edges[name] or (0.0, 1.0)
        return high - low


def _fresh(seeds: np.random.SeedSequence) -> np.random.Generator:
    """A generator that shares nothing with earlier ones."""
    return np.random.default_rng(seeds.spawn(1)[0])


# --- goals of the search


def _most_score(targets: list[float]) -> Goal:
    def goal(judged: Worth) -> float:
        beyond = sum(max(0.0, leak - most) for leak, most in zip(judged.leaks, targets, strict=True))
        return judged.score - _PENALTY * beyond - 0.02 * max(judged.leaks)

    return goal


def _least_leak(score: float) -> Goal:
    return lambda judged: -sum(judged.leaks) - _PENALTY * max(0.0, score - judged.score)


def _fewest_symbols(score: float) -> Goal:
    return lambda judged: -0.002 * judged.symbols - _PENALTY * max(0.0, score - judged.score)


# --- codes as agents have them


def _linear(code: Code, edges: Array | None) -> tuple[Array, Array]:
    """M and m of :mod:`veilnet.symbols.agent`."""
    if edges is None:
        return np.eye(code.symbols)[code.labels].T.copy(), np.zeros(code.symbols)
    return np.arange(code.symbols, dtype=float)[:, None], -np.append(0.0, np.cumsum(edges))


def _edges_in_service(layer: Layer, rows: Array, code: Code, levels: Array) -> Array:
    """Where the symbols of a number part: the same quantiles of the share as in the search, of these levels."""
    return np.asarray(np.quantile(layer(rows)[:, 0], levels[np.flatnonzero(np.diff(code.labels))]))


def _meanings(public: Quantity, code: Code, edges: Array | None) -> list[str]:
    if edges is None:
        groups = [
            [str(public.classes[k]) for k in np.flatnonzero(code.labels == s)] for s in range(code.symbols)
        ]
        return [f"{public.name} is most likely {' or '.join(group)}" for group in groups]
    cuts = [three_digits(edge) for edge in edges]
    if not cuts:
        return ["anything"]
    between = [f"between {low} and {high}" for low, high in pairwise(cuts)]
    return [
        f"its part of {public.name} is {where}"
        for where in (f"below {cuts[0]}", *between, f"above {cuts[-1]}")
    ]


def _silence_last(sent: Integers, symbols: int) -> Integers:
    return np.where(sent < 0, symbols, sent)
