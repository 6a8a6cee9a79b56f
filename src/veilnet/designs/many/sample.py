"""Agents that stand for all: where a search among very many begins.

A thousand agents or two, evenly spread, each counted as often as it stands for others, have nearly the information of
all. Good prices for them are nearly good prices for all, and cost a small part of the passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from veilnet._core.blocks import Blocks
from veilnet._core.types import Array, Integers
from veilnet.designs.many.mixture import Question
from veilnet.designs.many.recipes import Rule
from veilnet.model.standard_form import StandardForm

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
