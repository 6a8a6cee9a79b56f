"""From a table to a plan of symbols: learn, choose, certify."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from veilnet._core.errors import Infeasible, InvalidRequest
from veilnet._core.progress import Progress, Stopped, silent, within
from veilnet._core.spelling import names_keywords
from veilnet._core.types import Array, Integers
from veilnet._core.validation import as_number
from veilnet._core.words import three_digits
from veilnet.agent.randomness import noise_source
from veilnet.symbols.agent import Layer, SymbolAgent
from veilnet.symbols.centre import SymbolCentre, calibration_error
from veilnet.symbols.certificate import SymbolCertificate
from veilnet.symbols.coarsening import Code, Goal, Judge, Worth, search
from veilnet.symbols.deviation import Tally, highest_mean
from veilnet.symbols.log import read_log
from veilnet.symbols.plan import SymbolPlan
from veilnet.symbols.quantity import Quantity
from veilnet.symbols.shares import LearnedShares, learn_shares, raw_score, score_of

_STEPS = 4000  # of the search at most, at 3,000 rows
_STEPS_EACH, _FEWEST_STEPS = 40, 300  # for each class or cell of each agent
_CURVE = (0.6, 0.35, 0.2, 0.1, 0.05)  # of the leak of the finest codes above that of silence
_ATTEMPTS = ((1.0, 0.9), (2.5, 0.1))  # margin in standard deviations, part of the doubt that may be spent
_TAIL = 0.02  # of a private number, left and right: a value beyond counts as the edge
_WIDENED = 0.25  # of the range of a reading, on each side
_PENALTY = 5.0  # for a leak beyond what was asked, in units of the score


@names_keywords
def learn_symbols(
    table: Any,
    agents: Mapping[str, Any],
    public: str,
    private: Any,
    *,
    guessed: float | Mapping[str, float] | None = None,
    public_loss: float | None = None,
    window: int = 1,
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
    window:  so many successive rows make one: each agent computes mean, spread and slope of its readings in them, and
             sends one symbol. What may and must not be known is that of a window's last row.
    blocks:  a column or labels of blocks that are independent of each other (a session, a day). None: every row is
             taken to be independent of the others, and the certificate is as good as that. A window has
             rows of one block.
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
    learner = SymbolLearner(table, agents, public, private, window, blocks, confidence, seed, progress)
    return learner.keeping(public_loss) if guessed is None else learner.under(guessed)


@dataclass(frozen=True, eq=False)
class Choice:
    """Codes, and what they are worth on the rows that learn."""

    codes: list[Code]
    worth: Worth


class SymbolLearner:
    """A log and what was learned from it, of which several questions may be asked.

    Its arguments are those of :func:`learn_symbols`.
    """

    def __init__(
        self,
        table: Any,
        agents: Mapping[str, Any],
        public: str,
        private: Any,
        window: int = 1,
        blocks: Any = None,
        confidence: float = 0.95,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> None:
        level = 1 - as_number(confidence, "confidence", error=InvalidRequest)
        if not 1e-6 <= level <= 0.2:
            raise InvalidRequest(f"confidence: expected 0.8 to 0.999999, found {confidence!r}")
        # Three seeds: what certifies must not choose, nor be chosen.
        dealing, self._choosing, self._coins = np.random.SeedSequence(seed).spawn(3)
        self.log = log = read_log(table, agents, public, private, window, blocks, _fresh(dealing))
        self.confidence, self.level, self.seed = 1 - level, level / len(log.private), seed
        self._progress = progress or silent
        self.learn = ~log.certify
        self.edges = {name: self._edges_of(each) for name, each in log.private.items()}
        self._blocks = np.unique(log.blocks[log.certify], return_inverse=True)[1].reshape(-1)

    # --- the two questions

    def under(self, guessed: float | Mapping[str, float]) -> SymbolPlan:
        """The best public score while no leak is larger than asked, certified."""
        asked = self._asked(guessed)
        silence = self._certificates(np.zeros(int(self.log.certify.sum()), np.intp), _ATTEMPTS[0][1])
        for name, each in silence.items():
            if asked[name] < each.leak:
                what = "share below" if each.classes else "error above"
                raise Infeasible(
                    f"guessed[{name!r}]: with {each.rows} rows in {each.blocks} independent blocks to certify, no "
                    f"{what} {three_digits(each.promise)} can be certified even of silence; ask for less, or give "
                    "more rows"
                )
        shares, judge = self._shares
        tried: list[SymbolPlan] = []
        for margin, part in _ATTEMPTS:
            targets = [self._target(silence[name].sample, most, margin, part) for name, most in asked.items()]
            codes = self._best(_most_score(targets))
            if all(code.symbols == 1 for code in codes):
                break
            tried.append(self._plan(shares, judge, codes, part))
            if all(tried[-1].certificate[name].leak <= most for name, most in asked.items()):
                return tried[-1]
        possible = "only silence would do"
        if tried:  # all of them hold together
            best = min(tried, key=lambda plan: sum(each.leak for each in plan.certificate.values()))
            promises = "; ".join(map(str, best.certificate.values()))
            possible = f"certified was, with a score of {three_digits(best.score)}: {promises}"
        raise Infeasible(
            f"guessed: what was asked could not be certified from {int(self.log.certify.sum())} rows that chose "
            f"nothing; ask for less, or give more rows; {possible}"
        )

    def keeping(self, public_loss: float | None) -> SymbolPlan:
        """The smallest leak, or the fewest symbols, while the public score is kept."""
        if public_loss is not None and as_number(public_loss, "public_loss", error=InvalidRequest) < 0:
            raise InvalidRequest(f"public_loss: expected 0 or more, found {public_loss!r}")
        shares, judge = self._shares
        best = judge.judge(judge.finest()).score
        slack = math.sqrt(max(0.0, best * (1 - best)) / int(self.learn.sum()))
        goal = _fewest_symbols(best - slack)
        if public_loss is not None:
            thirds = [self.log.fold % 3 == k for k in range(3)]
            raw = float(np.mean([self._raw(self.learn & ~third, self.learn & third) for third in thirds]))
            least = raw - float(public_loss)
            if best < least - 2 * slack:
                raise Infeasible(
                    f"public_loss: raw readings score {raw:.3f}, the finest symbols {best:.3f}; "
                    f"a loss of {max(0.0, raw - best):.3f} is the least that symbols have here"
                )
            goal = _least_leak(min(least, best))
        return self._plan(shares, judge, self._best(goal, coins=public_loss is not None), 1.0)

    def every_choice(self) -> list[SymbolPlan]:
        """A plan for each of the choices; all their certificates hold together, so that any one may be taken."""
        shares, judge = self._shares
        return [self._plan(shares, judge, each.codes, 1 / len(self.choices)) for each in self.choices]

    # --- steps

    @cached_property
    def _shares(self) -> tuple[LearnedShares, Judge]:
        try:
            shares = learn_shares(self.log, self.seed, within(self._progress, "learning", 0.0, 0.6))
        except Stopped:
            raise InvalidRequest("progress: asked to stop before anything was learned") from None
        private = [each.take(self.learn).within(self.edges[name]) for name, each in self.log.private.items()]
        public = self.log.public.take(self.learn)
        return shares, Judge(list(shares.learned.values()), public, private, _fresh(self._choosing))

    @cached_property
    def choices(self) -> list[Choice]:
        """From fine codes to nearly silent ones: the score against what leaks, by the rows that learn alone.

        Each is searched from the one before, with a smaller leak of every private quantity. Left out are those that
        another one equals or beats in everything.
        """
        judge, part = self._shares[1], 0.15 / len(_CURVE)
        finest, silent = judge.judge(judge.finest()), judge.judge(judge.finest(silent=True))
        found, leaks = [Choice(judge.finest(), finest)], list(zip(finest.leaks, silent.leaks, strict=True))
        for place, above in enumerate(_CURVE):
            targets = [none + above * (most - none) for most, none in leaks]
            codes = self._search(_most_score(targets), found[-1].codes, 0.6 + place * part, part, 0.25)
            found.append(Choice(codes, judge.judge(codes)))
        merits = np.array([[each.worth.score, *np.negative(each.worth.leaks)] for each in found])
        better = [np.all(merits >= mine, axis=1) & np.any(merits > mine, axis=1) for mine in merits]
        first = np.unique(merits, axis=0, return_index=True)[1]
        return [found[k] for k in sorted(first) if not better[k].any()]

    def _best(self, goal: Goal, *, coins: bool = True) -> list[Code]:
        """The best codes for a goal, from the best of the choices on."""
        begin = max(self.choices, key=lambda each: goal(each.worth)).codes
        return self._search(goal, begin, 0.75, 0.2, coins=coins)

    def _search(
        self, goal: Goal, begin: list[Code], start: float, part: float, share: float = 1.0, coins: bool = True
    ) -> list[Code]:
        """A walk of a share of the steps, which is a part of the whole progress."""
        each = max(_FEWEST_STEPS, _STEPS_EACH * sum(len(code.labels) for code in begin))
        steps = int(share * min(each, np.clip(_STEPS * 3000 / int(self.learn.sum()), _STEPS / 4, _STEPS)))
        advance = within(self._progress, "choosing symbols", start, part)
        rng = _fresh(self._choosing)
        return search(self._shares[1], goal, begin, steps=steps, coins=coins, rng=rng, advance=advance)

    def _curve(self) -> Array:
        """(choices, 1 + P) of each choice the score, and of each private quantity what would be certified."""
        silence, found = self._certificates(np.zeros(int(self.log.certify.sum()), np.intp), 1.0), []
        for each in (choice.worth for choice in self.choices):
            promised = (one.expected(leak) for one, leak in zip(silence.values(), each.leaks, strict=True))
            found.append([each.score, *promised])
        return np.array(found)

    @cached_property
    def _raw_score(self) -> float:
        return self._raw(self.learn, self.log.certify)

    def _raw(self, train: Any, test: Any) -> float:
        whole = np.all([np.isfinite(each).all(axis=1) for each in self.log.features.values()], axis=0)
        return raw_score(self.log, train & whole, test & whole, self.seed)

    def _agent(self, name: str, layer: Layer, code: Code, levels: Array | None) -> SymbolAgent:
        rows = self.log.features[name][self.learn]
        rows = rows[np.isfinite(rows).all(axis=1)]
        low, high = rows.min(axis=0), rows.max(axis=0)
        wider = _WIDENED * (high - low)
        edges = None if levels is None else edges_in_service(layer, rows, code, levels)
        matrix, start = _linear(code, edges)
        return SymbolAgent(
            name, self.log.columns[name], self.log.window, low - wider, high + wider, layer, matrix, start,
            code.keep, _meanings(self.log.public, code, edges),
        )  # fmt: skip

    def _certificates(self, place: Integers, part: float) -> dict[str, SymbolCertificate]:
        """Of the cells of the rows that certify, spending a part of the doubt."""
        certify, sure = self.log.certify, 1 - self.level * part
        return {
            name: SymbolCertificate.of(each.take(certify), self.edges[name], place, self._blocks, sure)
            for name, each in self.log.private.items()
        }

    def _plan(self, shares: LearnedShares, judge: Judge, codes: list[Code], part: float) -> SymbolPlan:
        """Certify what agents with these codes send, and measure what the centre makes of it."""
        certify = self.log.certify
        agents = {
            name: self._agent(name, layer, code, None if judge.levels is None else judge.levels[k])
            for k, ((name, layer), code) in enumerate(zip(shares.layers.items(), codes, strict=True))
        }
        source = noise_source(_fresh(self._coins))
        sent = {
            name: each.send_or_not(self.log.readings[name][certify], source) for name, each in agents.items()
        }
        sizes = {name: agent.symbols for name, agent in agents.items()}
        # silence comes after the last symbol
        shown = np.stack([np.where(sent[a] < 0, many, sent[a]) for a, many in sizes.items()], axis=1)
        cells, place = np.unique(shown, axis=0, return_inverse=True)
        found = self._certificates(place.reshape(-1), part)
        # by layers that did not learn from these rows: those in service would make the centre far too sure
        learned = np.stack([code.sent for code in codes], axis=1)
        centre = replace(
            SymbolCentre.learn(judge.public, sizes, learned),
            seen={
                name: np.bincount(shown[:, k], minlength=many + 1).astype(float)
                for k, (name, many) in enumerate(sizes.items())
            },
            alike=next(iter(found.values())).sample.largest,
        )
        held, estimate = self.log.public.take(certify), centre.estimate(sent)
        off, named = None, estimate.public
        if estimate.probabilities is None:
            square = float(np.mean((held.values - estimate.public) ** 2))
            centre = replace(centre, wider=max(1.0, float(np.sqrt(square / np.mean(estimate.deviation**2)))))
        else:
            off = calibration_error(estimate.probabilities, held.values)
            named = np.argmax(estimate.probabilities, axis=1)
        score = score_of(held, named)
        return SymbolPlan(
            agents, centre, found, self.confidence, cells, score, self._raw_score, off, self._curve()
        )

    # --- what can be asked

    def _asked(self, guessed: Any) -> dict[str, float]:
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
            low, high = self.edges[name]
            asked[name] = figure if quantity.classes else 1 - (figure / (high - low)) ** 2
        return asked

    def _edges_of(self, quantity: Quantity) -> tuple[float, float]:
        if quantity.classes:
            return 0.0, 1.0
        low, high = np.quantile(quantity.values[self.learn], (_TAIL, 1 - _TAIL))
        if not high > low:
            raise InvalidRequest(
                f"{quantity.name}: nearly every row has the same value; give it classes instead"
            )
        return float(low), float(high)

    def _target(self, sample: Tally, most: float, margin: float, part: float) -> float:
        """The leak to search for: with a margin it is still certified."""
        low, high = 0.0, most
        for _ in range(25):
            leak = (low + high) / 2
            alike = math.sqrt(sample.largest)  # rows of a block are partly alike
            above = leak + margin * math.sqrt(leak * (1 - leak) * alike / sample.rows)
            fits = above < 1 and highest_mean(above * sample.rows, sample, self.level * part) <= most
            low, high = (leak, high) if fits else (low, leak)
        return low


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
    def goal(judged: Worth) -> float:
        return 0.05 * judged.score - 0.002 * judged.symbols - _PENALTY * max(0.0, score - judged.score)

    return goal


# --- codes as agents have them


def _linear(code: Code, edges: Array | None) -> tuple[Array, Array]:
    """M and m of :mod:`veilnet.symbols.agent`."""
    if edges is None:
        return np.eye(code.symbols)[code.labels].T.copy(), np.zeros(code.symbols)
    return np.arange(code.symbols, dtype=float)[:, None], -np.append(0.0, np.cumsum(edges))


def edges_in_service(layer: Layer, rows: Array, code: Code, levels: Array) -> Array:
    """Where the symbols of a number part: the same quantiles of the share as in the search, of these levels."""
    return np.asarray(np.quantile(layer(rows)[:, 0], levels[np.flatnonzero(np.diff(code.labels))]))


def _meanings(public: Quantity, code: Code, edges: Array | None) -> list[str]:
    if edges is None:
        places = [np.flatnonzero(code.labels == symbol) for symbol in range(code.symbols)]
        groups = [" or ".join(str(public.classes[k]) for k in mine) for mine in places]
        return [f"{public.name} is most likely {group}" for group in groups]
    cuts = [three_digits(edge) for edge in edges]
    if not cuts:
        return ["anything"]
    between = [f"between {low} and {high}" for low, high in pairwise(cuts)]
    where = [f"below {cuts[0]}", *between, f"above {cuts[-1]}"]
    return [f"its part of {public.name} is {each}" for each in where]
