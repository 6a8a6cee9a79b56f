"""How one agent answers: a rule, a few directions of x long, that turns what it observes into what it sends.

``prices``    Γ = D diag(signs) D': the agent sends the projection onto all that has a negative price, H_i Γ H_i' ≺ 0.
``span``      it sends what D shows in its readings, span(H_i D), and nothing else: D = U' is the share.
``withhold``  it sends everything but that.

With ``softness`` μ a price between -μ and 0 is answered in part: X_i = φ(H_i Γ H_i'), φ falling smoothly from 1 to 0
there, which has a derivative by D (:func:`pulled`) also where an agent turns from telling to hiding.

The rule is the same for all agents, in the coordinates of :class:`veilnet.model.standard_form.StandardForm`.
What the answers of all agents add up to is all that a search sees of them (:class:`Crowd`): where the agents are is
nobody else's business.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from veilnet._core.stacks import Summing, parts, summed
from veilnet._core.types import Array, Integers
from veilnet.model.standard_form import StandardForm

# Below this part of an agent's largest price, a price is rounding: what has none is not sent.
_NO_PRICE = 1e-12
# Below this part of the largest, what a direction shows is rounding; as for shares and hidden directions elsewhere.
_UNSEEN = 1e-10


@dataclass(frozen=True, eq=False)
class Rule:
    """One rule for all agents.

    directions: D, (L, k).
    signs:      of the prices, (k,): -1 for what is worth telling, 1 for what is worth hiding.
    softness:   μ.
    """

    kind: Literal["prices", "span", "withhold"]
    directions: Array
    signs: Array
    softness: float = 0.0

    @classmethod
    def prices(cls, directions: Array, weights: Array) -> Rule:
        """The answer to Γ = E diag(weights) E'."""
        return cls("prices", directions * np.sqrt(np.abs(weights)), np.sign(weights))

    @classmethod
    def span(cls, directions: Array) -> Rule:
        """Only what these directions show."""
        return cls("span", directions, np.ones(directions.shape[1]))

    @classmethod
    def withhold(cls, directions: Array) -> Rule:
        """Everything but what these directions show; all, where there is none."""
        return cls("withhold", directions, np.ones(directions.shape[1]))

    def in_coordinates(self, change: Array) -> Rule:
        """The same rule for readings H T where it was made for H, with ``change`` = T^-1."""
        return replace(self, directions=change @ self.directions)


def answered(recipe: Rule, observe: Array) -> tuple[Array, Array]:
    """(Q, x) of a stack of agents: orthonormal columns (s, n, n), and how much of each is sent, (s, n), from 0 to 1.

    observe: H_i, (s, n, L), the agent's own noise white.
    """
    if recipe.kind == "prices":
        shown = observe @ recipe.directions
        values, vectors = np.linalg.eigh((shown * recipe.signs) @ shown.transpose(0, 2, 1))
        return vectors, _part_sent(values, recipe.softness)
    sent = np.zeros(observe.shape[:2])
    if recipe.directions.shape[1] == 0:
        vectors = np.broadcast_to(np.eye(observe.shape[1]), (*observe.shape[:2], observe.shape[1]))
    else:
        vectors, sizes, _ = np.linalg.svd(observe @ recipe.directions)
        sent[:, : sizes.shape[1]] = sizes > _UNSEEN * sizes.max(initial=0.0)
    return vectors, sent if recipe.kind == "span" else 1.0 - sent


def answers(observe: Array, recipe: Rule, wanted: Array) -> tuple[Array, Array]:
    """(Σ H_i'X_i H_i, Σ H_i'(I - X_i)H_i A) of a stack; A is ``wanted``, (L, r)."""
    vectors, sent = answered(recipe, observe)
    turned = (vectors.transpose(0, 2, 1) @ observe).reshape(-1, observe.shape[2])
    flat = sent.reshape(-1)
    rows, hidden = turned[flat > 0], turned[flat < 1]
    if recipe.softness:
        rows = rows * np.sqrt(flat[flat > 0])[:, None]
    lost = hidden @ wanted
    if recipe.softness:
        lost *= (1.0 - flat[flat < 1])[:, None]
    return rows.T @ rows, hidden.T @ lost


def pulled(observe: Array, recipe: Rule, estimate: Array, worths: Array) -> Array:
    """Derivatives by D, (m, L, k), of Σ_r worths_mr Σ_i e_r'H_i'X_i H_i e_r over a stack, e_r in ``estimate``."""
    shown = observe @ recipe.directions
    values, vectors = np.linalg.eigh((shown * recipe.signs) @ shown.transpose(0, 2, 1))
    inverse = vectors.transpose(0, 2, 1)
    sent, slope = _part_sent(values, recipe.softness), _slope(values, recipe.softness)
    apart = values[:, :, None] - values[:, None, :]
    same = np.abs(apart) <= 1e-9 * np.abs(values).max(axis=1)[:, None, None]
    differences = np.where(
        same,
        (slope[:, :, None] + slope[:, None, :]) / 2,
        (sent[:, :, None] - sent[:, None, :]) / np.where(same, 1.0, apart),
    )
    seen = inverse @ (observe @ estimate)
    back = inverse @ (shown * recipe.signs)
    turned = (inverse @ observe).reshape(-1, observe.shape[2])
    made = np.empty((len(worths), *recipe.directions.shape))
    for place, worth in enumerate(worths):
        inner = differences * ((seen * worth) @ seen.transpose(0, 2, 1))
        made[place] = 2 * turned.T @ (inner @ back).reshape(-1, back.shape[2])
    return made


def mixed_answers(recipes: Sequence[Rule], weights: Array, observe: Array) -> Array:
    """X_i = Σ_k weights_k X_i(recipe k) of a stack, (s, n, n)."""
    made = np.zeros((*observe.shape[:2], observe.shape[1]))
    for recipe, weight in zip(recipes, weights, strict=True):
        vectors, sent = answered(recipe, observe)
        half = vectors * np.sqrt(sent)[:, None, :]
        made += weight * (half @ half.transpose(0, 2, 1))
    return made


def _part_sent(values: Array, softness: float) -> Array:
    """φ: 1 below -μ, 0 above 0."""
    if softness == 0.0:
        least = _NO_PRICE * np.abs(values).max(axis=1, keepdims=True)
        return np.asarray(values < -least, dtype=np.float64)
    part = np.clip(-values / softness, 0.0, 1.0)
    return np.asarray(part**2 * (3 - 2 * part))


def _slope(values: Array, softness: float) -> Array:
    if softness == 0.0:
        return np.zeros(values.shape)
    part = np.clip(-values / softness, 0.0, 1.0)
    return np.asarray(-6 * part * (1 - part) / softness)


@dataclass(frozen=True, eq=False)
class Known:
    """What is known when all agents answer in one way.

    information: J̃, (L, L).
    hidden:      (J - J̃) A, (L, r): what is lost for A = [U; G_1; ...; G_J]', to all digits however little.
    """

    information: Array
    hidden: Array


class Crowd:
    """All agents, in coordinates of x in which the raw information is the identity.

    form:   what is not of agents, and of a network in one piece the agents themselves.
    summed: one pass over all, in stacks of agents H_i, (s, n, L).
    wanted: A = [U; G_1; ...; G_J]', (L, r), in standard form.
    owner:  for each column of A, 0 for public and j for G_j.
    """

    def __init__(self, form: StandardForm, summed: Summing) -> None:
        self.form, self.summed = form, summed
        wanted = [form.public, *form.private]
        self.wanted: Array = np.vstack(wanted).T.copy()
        self.owner: Integers = np.repeat(np.arange(len(wanted)), [len(rows) for rows in wanted])

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
