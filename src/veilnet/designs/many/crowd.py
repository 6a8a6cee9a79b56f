"""What the answers of all agents add up to; where the agents are is nobody else's business."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from veilnet._core.stacks import Summing, parts, summed
from veilnet._core.types import Array, Integers
from veilnet.designs.many.recipes import Rule, answers, mixed_answers, pulled
from veilnet.model.standard_form import StandardForm


@dataclass(frozen=True, eq=False)
class Known:
    """What is known when all agents answer in one way.

    information: J̃, (L, L).
    hidden:      (J - J̃) A, (L, r): what is lost for A = [U; G_1; ...; G_J]', to all digits however little.
    """

    information: Array
    hidden: Array


def columns_of(form: StandardForm) -> tuple[Array, Integers]:
    """A and its owners."""
    counts = [form.public.shape[0], *(rows.shape[0] for rows in form.private)]
    return np.vstack([form.public, *form.private]).T.copy(), np.repeat(np.arange(len(counts)), counts)


class Crowd:
    """All agents, in coordinates of x in which the raw information is the identity.

    form:   what is not of agents, and of a network in one piece the agents themselves.
    summed: one pass over all, in stacks of agents H_i, (s, n, L).
    wanted: A = [U; G_1; ...; G_J]', (L, r), in standard form.
    owner:  for each column of A, 0 for public and j for G_j.
    """

    def __init__(self, form: StandardForm, summed: Summing) -> None:
        self.form, self.summed = form, summed
        self.wanted, self.owner = columns_of(form)

    def ask(self, recipe: Rule) -> Known:
        """What is known when all answer by one recipe."""
        sent, hidden = self.summed(answers, recipe, self.wanted)
        if self.form.withheld is not None:
            hidden = hidden + self.form.withheld @ self.wanted
        return Known(self.form.information + sent, hidden)

    def pull(self, recipe: Rule, estimate: Array, worths: Array) -> Array:
        """Derivatives of Σ_r worths_mr e_r'J̃e_r by the recipe's directions, (m, L, k)."""
        return self.summed(pulled, recipe, estimate, worths)[0]


class FormCrowd(Crowd):
    """The agents of a network in one piece, a few thousand at a time."""

    def __init__(self, form: StandardForm) -> None:
        super().__init__(form, self._summed)

    def _summed(self, answer: Callable[..., Any], *asked: Any) -> tuple[Array, ...]:
        whole = (group.take(self.form.observe) for group in self.form.blocks.groups)
        return summed((each[part] for each in whole for part in parts(*each.shape)), answer, *asked)

    def shrink(self, recipes: Sequence[Rule], weights: Array) -> list[Array]:
        """X per size group of a mixture, (count, n, n)."""
        made = []
        for group in self.form.blocks.groups:
            observe = group.take(self.form.observe)
            stack = np.empty((group.count, group.size, group.size))
            for part in parts(*observe.shape):
                stack[part] = mixed_answers(recipes, weights, observe[part])
            made.append(stack)
        return made
