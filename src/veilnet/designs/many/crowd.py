"""What the answers of all agents add up to; where the agents are is nobody else's business."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from veilnet._core.stacks import parts
from veilnet._core.types import Array, Integers
from veilnet.designs.many.recipes import Rule, answers, mixed, pulled
from veilnet.model.standard_form import StandardForm


@dataclass(frozen=True, eq=False)
class Known:
    """What is known when all agents answer in one way.

    information: J̃, (L, L).
    hidden:      (J - J̃) A, (L, r): what is lost for A = [U; G_1; ...; G_J]', to all digits however little.
    """

    information: Array
    hidden: Array


class Crowd(Protocol):
    """All agents, in coordinates of x in which the raw information is the identity."""

    @property
    def wanted(self) -> Array:
        """A = [U; G_1; ...; G_J]', (L, r), in standard form."""

    @property
    def owner(self) -> Integers:
        """For each column of A, 0 for public and j for G_j."""

    def ask(self, recipe: Rule) -> Known:
        """What is known when all answer by one recipe; one pass over all agents."""

    def pull(self, recipe: Rule, estimate: Array, worths: Array) -> Array:
        """Derivatives of Σ_r worths_mr e_r'J̃e_r by the recipe's directions, (m, L, k); one pass over all agents."""


def columns_of(form: StandardForm) -> tuple[Array, Integers]:
    """A and its owners."""
    counts = [form.public.shape[0], *(rows.shape[0] for rows in form.private)]
    return np.vstack([form.public, *form.private]).T.copy(), np.repeat(np.arange(len(counts)), counts)


class FormCrowd:
    """The agents of a network in one piece."""

    def __init__(self, form: StandardForm) -> None:
        self.form = form
        self.wanted, self.owner = columns_of(form)

    def ask(self, recipe: Rule) -> Known:
        """As :meth:`Crowd.ask`, a few thousand agents at a time."""
        information, hidden = self.form.information.copy(), np.zeros(self.wanted.shape)
        if self.form.withheld is not None:
            hidden += self.form.withheld @ self.wanted
        for group in self.form.blocks.groups:
            observe = group.take(self.form.observe)
            for part in parts(*observe.shape):
                told, lost = answers(recipe, observe[part], self.wanted)
                information += told
                hidden += lost
        return Known(information, hidden)

    def pull(self, recipe: Rule, estimate: Array, worths: Array) -> Array:
        """As :meth:`Crowd.pull`."""
        made = np.zeros((len(worths), *recipe.directions.shape))
        for group in self.form.blocks.groups:
            observe = group.take(self.form.observe)
            for part in parts(*observe.shape):
                made += pulled(recipe, observe[part], estimate, worths)
        return made

    def shrink(self, recipes: Sequence[Rule], weights: Array) -> list[Array]:
        """X per size group of a mixture, (count, n, n)."""
        made = []
        for group in self.form.blocks.groups:
            observe = group.take(self.form.observe)
            stack = np.empty((group.count, group.size, group.size))
            for part in parts(*observe.shape):
                stack[part] = mixed(recipes, weights, observe[part])
            made.append(stack)
        return made
