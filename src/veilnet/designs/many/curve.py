"""The trade-off curve of very many agents: the two questions asked of one curve, as of smaller networks.

It begins with agents that stand for all. A thousand or two, evenly spread, each counted as often as it stands for
others, have nearly the information of all. Good prices for them are nearly good prices for all, and cost a small part
of the passes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import null_space, solve_triangular

from veilnet._core.blocks import Blocks
from veilnet._core.progress import Stopped
from veilnet._core.types import Array, Booleans, Integers
from veilnet.designs.joint import JointResult
from veilnet.designs.joint.hidden import hiding_directions
from veilnet.designs.joint.levels import Levels
from veilnet.designs.joint.objective import infinite_where_unknown
from veilnet.designs.joint.search import unseen_by
from veilnet.designs.joint.settings import SETTINGS, SearchOptions
from veilnet.designs.many.descent import Descent, Effort, FoundMixture
from veilnet.designs.many.mixture import Question
from veilnet.designs.many.recipes import Crowd, FormCrowd, Rule
from veilnet.model.standard_form import StandardForm

MANY_ENTRIES = 30_000
"""Agents are many when Σ n_i² over them is more than this, and their noises are independent."""
_STARTS = 2
_ON_SAMPLE = Effort(first=10, steps=100, rounds=4, last=30)
_ON_ALL = Effort(first=15, steps=60, rounds=5, last=25)


def are_many(form: StandardForm) -> bool:
    """Whether prices are searched for instead of one matrix for each agent."""
    return form.coupling is None and float((form.blocks.sizes.astype(float) ** 2).sum()) > MANY_ENTRIES


class ManySearch:
    """Mixtures of answers for any question to a crowd.

    crowd:   all agents.
    sample:  a few agents that stand for all.
    options: how many beginnings there are on the sample, and what the later ones are drawn from.
    effort:  among all agents.
    stopped: whether the caller asked the search to stop.
    """

    def __init__(
        self, crowd: Crowd, sample: Sample, options: SearchOptions, effort: Effort = _ON_ALL
    ) -> None:
        self._sample, self._tell, self._effort = sample, options.tell, effort
        self.starts = _STARTS if options.starts is None else options.starts
        self._seed = options.seed
        self._all = Descent(crowd, sample.scale, self._tell)
        self._hiding_all: Rule | None = None
        self.stopped = False

    @property
    def ceiling(self) -> Array:
        """The privacies that are free."""
        return self._all.ceiling

    @property
    def limit(self) -> Array:
        """The privacies of silence."""
        return self._all.limit

    def know_closed_forms(self, form: StandardForm, asked: Booleans) -> None:
        """Know what it is to tell nothing of what is asked about.

        Where a prior knows every direction of x, that has a formula, kept for every question. Where it does not, some
        are hidden altogether, the cheapest way found for the sample. No search begins there, where nothing presses
        and prices say nothing; it is what any answer has to beat.

        form:  of all agents.
        asked: about which private parameters.
        """
        if null_space(form.information, rcond=1e-11).shape[1] == 0:
            private = np.concatenate([rows for rows, each in zip(form.private, asked, strict=True) if each])
            known = np.linalg.solve(form.information, private.T)
            self._all.add([Rule.withhold(known / np.linalg.norm(known, axis=0))])
            return
        for directions in hiding_directions(self._sample.form, asked, self._seed)[:1]:
            self._hiding_all = Rule.withhold(directions).in_coordinates(self._sample.change)

    def answer(self, question: Question) -> tuple[FoundMixture, int]:
        """The best mixture found, and how many starts on the sample agreed with the best of them."""
        agreed = 0
        if not self.stopped:
            try:
                recipes, agreed = self._on_sample(question)
                self._all.add(recipes)
            except Stopped:
                self.stopped = True
        effort = Effort(0, 0, 0, 0) if self.stopped else self._effort
        found = self._all.answer(question, effort)
        self.stopped |= found.interrupted
        if self._hiding_all is not None:
            found = self._all.or_alone(question, found, self._hiding_all)
        return found, max(agreed, 1)

    def _on_sample(self, question: Question) -> tuple[list[Rule], int]:
        """Good prices for the sample, and what its best mixture hides most hidden altogether, for all to answer."""
        form = self._sample.form
        crowd = FormCrowd(form)
        found: list[FoundMixture] = []
        for first in self._beginnings():
            descent = Descent(crowd, lambda recipe: middle_price(form, recipe), self._tell)
            mine = as_asked_of_all(question, (self.ceiling, self.limit), (descent.ceiling, descent.limit))
            found.append(descent.answer(mine, _ON_SAMPLE, first))
            if found[-1].interrupted:
                raise Stopped
        best = min(found, key=lambda each: each.value)
        agreed = sum(each.value <= best.value + SETTINGS.agree for each in found)
        recipes = [recipe for recipe, weight in zip(best.recipes, best.weights, strict=True) if weight > 1e-3]
        if best.at.privacy.max() > SETTINGS.far / 10:
            recipes.append(self._hiding(best))
        return [recipe.in_coordinates(self._sample.change) for recipe in recipes], agreed

    def _hiding(self, found: FoundMixture) -> Rule:
        """Everything but the direction of x that is known least; what the public rows see of it stays."""
        least = np.linalg.eigh(found.at.information)[1][:, :1]
        seen = np.linalg.qr(self._sample.form.public.T)[0]
        return Rule.withhold(least - seen @ (seen.T @ least))

    def _beginnings(self) -> Iterator[Rule | None]:
        """Shares and silence; then directions hidden that private rows see most, then any."""
        form = self._sample.form
        yield None
        blind = unseen_by(form.public)
        principal = np.linalg.svd(np.vstack(form.private) @ blind, full_matrices=False)[2]
        rng = np.random.default_rng([self._seed, 4])
        for number in range(self.starts - 1):
            inner = principal[number] if number < len(principal) else rng.standard_normal(blind.shape[1])
            yield Rule.withhold((blind @ inner)[:, None])


class ManyCurve(Levels):
    """As :class:`veilnet.designs.joint.JointCurve`, for very many agents."""

    def __init__(
        self, form: StandardForm, weights: Array, options: SearchOptions, *, floors: Array | None = None
    ) -> None:
        super().__init__(weights, floors)
        self._form, self._crowd, self._options = form, FormCrowd(form), options

    @property
    def ceiling(self) -> float:
        """The level that is free."""
        return self.reached(self._search.ceiling)

    @property
    def limit(self) -> float:
        """The level that silence reaches."""
        return self.reached(self._search.limit)

    @cached_property
    def _search(self) -> ManySearch:
        search = ManySearch(self._crowd, sample_of(self._form), self._options)
        search.know_closed_forms(self._form, self.asked)
        return search

    def at(self, level: float) -> JointResult:
        """The least loss found at a level between the ceiling and the limit."""
        return self._answered(Question(self.targets(level)))

    def within(self, budget: float) -> JointResult:
        """The largest level found whose loss is at most ``budget``."""
        return self._answered(Question(self.floors, self.weights, budget))

    def _answered(self, question: Question) -> JointResult:
        found, agreed = self._search.answer(question)
        values, vectors = np.linalg.eigh(found.at.information)
        asked = question.targets if question.weights is None else question.weights
        return JointResult(
            self._crowd.shrink(found.recipes, found.weights),
            found.at.loss,
            infinite_where_unknown(values, vectors, self._crowd.wanted, self._crowd.owner, found.at.privacy),
            self._search.starts,
            agreed,
            found.passes,
            found.gap,
            found.interrupted or self._search.stopped,
            [(loss, float(np.min(privacy[asked > 0] / asked[asked > 0]))) for loss, privacy in found.history],
        )


SAMPLE_ENTRIES = 24_000
"""Σ n_i² of the agents in a sample, about."""
_NO_PRICE = 1e-12  # of the largest price that any agent sees: less is rounding


@dataclass(frozen=True, eq=False)
class Sample:
    """A network in standard form that stands for a larger one.

    form:   the few agents.
    change: T^-1, (L, L), with H T^-1 what the sample's agents observe where H is in the coordinates of all.
    """

    form: StandardForm
    change: Array

    def scale(self, recipe: Rule) -> float:
        """The largest price that an agent in the middle sees; the recipe in the coordinates of all."""
        return middle_price(
            self.form, recipe.in_coordinates(np.asarray(np.linalg.inv(self.change), dtype=np.float64))
        )


def middle_price(form: StandardForm, recipe: Rule) -> float:
    """The median of the largest price that each agent sees, over those that see any; 0 where none does.

    Most agents may have to do neither with what is public nor with what is private.
    """
    largest = []
    for group in form.blocks.groups:
        shown = group.take(form.observe) @ recipe.directions
        values = np.linalg.eigvalsh((shown * recipe.signs) @ shown.transpose(0, 2, 1))
        largest.append(np.abs(values).max(axis=1))
    each = np.concatenate(largest)
    seen = each[each > _NO_PRICE * each.max()]
    return float(np.median(seen)) if seen.size else 0.0


def sample_of(form: StandardForm) -> Sample:
    """A few agents of each size, evenly spread."""
    total = float((form.blocks.sizes.astype(float) ** 2).sum())
    stacks, stand_for = [], []
    for group in form.blocks.groups:
        chosen = evenly(group.count, SAMPLE_ENTRIES / total)
        stacks.append(group.take(form.observe)[chosen])
        stand_for.append(group.count / len(chosen))
    return standing_for(form, stacks, stand_for)


def evenly(count: int, part: float) -> Integers:
    """The places of a part of ``count`` agents, at least one, evenly spread."""
    wanted = int(np.clip(np.ceil(part * count), 1, count))
    return np.asarray((np.arange(wanted) * count) // wanted, dtype=np.intp)


def standing_for(form: StandardForm, stacks: Sequence[Array], stand_for: Sequence[float]) -> Sample:
    """The sample with these agents, in its own standard form.

    form:      of all agents; only what is not of agents is used of it.
    stacks:    H_i of the agents chosen, (s, n, L), in the coordinates of all.
    stand_for: how many agents each of a stack stands for.
    """
    length = form.information.shape[0]
    observe = np.concatenate(
        [np.sqrt(each) * stack.reshape(-1, length) for stack, each in zip(stacks, stand_for, strict=True)]
    )
    withheld = np.zeros((length, length)) if form.withheld is None else form.withheld
    raw = form.information + withheld + observe.T @ observe
    root = np.linalg.cholesky((raw + raw.T) / 2 + 1e-12 * np.eye(length))
    change = solve_triangular(root, np.eye(length), lower=True).T
    information = change.T @ form.information @ change
    made = StandardForm(
        information=(information + information.T) / 2,
        observe=observe @ change,
        coupling=None,
        blocks=Blocks(np.concatenate([np.full(len(stack), stack.shape[1]) for stack in stacks])),
        public=_unit(form.public @ change),
        private=tuple(_unit(rows @ change) for rows in form.private),
        withheld=None if form.withheld is None else change.T @ withheld @ change,
    )
    return Sample(made, change)


def as_asked_of_all(
    question: Question, of_all: tuple[Array, Array], of_sample: tuple[Array, Array]
) -> Question:
    """The same question to the sample: privacies as far between its ceilings and its limits as those of all.

    of_all, of_sample: privacies of shares and of silence.
    """
    low, high = (np.log1p(each) for each in of_all)
    mine, top = (np.log1p(each) for each in of_sample)
    part = np.clip((np.log1p(question.targets) - low) / np.maximum(high - low, 1e-12), 0.0, 1 - 1e-9)
    free = np.expm1(mine) * question.targets / np.maximum(of_all[0], np.finfo(float).tiny)
    moved = np.where(question.targets <= of_all[0], free, np.expm1(mine + part * (top - mine)))
    return Question(np.where(question.targets > 0, moved, 0.0), question.weights, question.budget)


def _unit(rows: Array) -> Array:
    return np.asarray(rows / np.linalg.norm(rows))
