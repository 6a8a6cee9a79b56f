"""The answer to "can privacy be free?": how much is, who stands in the way, and how close the decision was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from veilnet._core.linalg import EPS
from veilnet._core.words import NOTHING, join_names, number, times
from veilnet.agent.sanitizer import Sanitizer
from veilnet.bounds.detectability import Detectability, detectability, secrets_headlines
from veilnet.bounds.knowledge import outlook
from veilnet.bounds.typical_errors import TypicalError, beside_errors, error_lines, typical_errors
from veilnet.model.network import Network
from veilnet.verdict.notes import notes_on
from veilnet.verdict.printed_theorems import PrintedTheorem, printed_theorem
from veilnet.verdict.shares import Shares

# The ceiling reaches the limit when it falls short of it by no more than this, relative; rounding of an
# ill-conditioned network raises it.
_SHORTFALL = 1e-11
# Agents are searched one by one for who stands in the way; in words only for networks up to this size.
_MOST_AGENTS_IN_WORDS = 200


@dataclass(frozen=True, eq=False)
class Verdict:
    """Whether privacy can be free in a network, and who stands in the way.

    network:    the model that was asked about.
    achievable: arbitrarily strong privacy at perfect utility (ASUP), exactly.
    ceiling:    most privacy p_j at perfect utility, per private parameter; inf where it is unbounded.
    limit:      ε_j^max, the privacy if nothing at all were sent.
    shares:     what each agent has to send, with how close the rank decisions were.
    at_least:   names whose ceiling is only known to be at least the figure given: the network amplifies rounding so
                much that doubles cannot hold the combinations which would reach it.
    """

    network: Network
    ceiling: Mapping[str, float]
    limit: Mapping[str, float]
    shares: Shares
    at_least: frozenset[str] = frozenset()

    @cached_property
    def achievable(self) -> bool:
        """Whether the ceiling reaches the limit for every private parameter."""
        return not self.blocked

    @cached_property
    def blocked(self) -> tuple[str, ...]:
        """The private parameters whose ceiling stays below their limit."""
        return tuple(name for name in self.ceiling if self.shortfall[name] > self.tolerance)

    @cached_property
    def shortfall(self) -> Mapping[str, float]:
        """How far the ceiling stays below the limit, as a part of the error there; 0 is free, 1 is far.

        Compare with ``tolerance`` to see how close the decision was.
        """
        return {name: _shortfall(self.ceiling[name], self.limit[name]) for name in self.ceiling}

    @property
    def tolerance(self) -> float:
        """The shortfall up to which the ceiling counts as reaching the limit: rounding of this network."""
        return max(_SHORTFALL, 64 * EPS * self.network.conditioning)

    @cached_property
    def blocking(self) -> Mapping[str, Mapping[str, float]]:
        """Private parameter -> agent -> the ceiling if that agent kept silent, for agents in the way.

        An agent is in the way when its silence (the others still sending their shares) would raise the
        ceiling; the one whose silence would raise it most comes first. Empty where privacy is free.
        """
        found: dict[str, dict[str, float]] = {name: {} for name in self.ceiling}
        if not self.blocked:
            return found
        messages = dict(self.shares.sanitizers)
        for agent, sanitizer in messages.items():
            if sanitizer.sent == 0:
                continue
            known = outlook(self.network, messages | {agent: Sanitizer.silent(sanitizer.readings)})
            for name in self.blocked:
                raised = known.growth(self.network.private[name], hindsight=True)
                if raised > self.ceiling[name] * (1 + 1e-9) + self.tolerance:
                    found[name][agent] = raised
        return {
            name: dict(sorted(agents.items(), key=lambda item: -item[1])) for name, agents in found.items()
        }

    @cached_property
    def printed_theorem(self) -> PrintedTheorem:
        """What Theorem 1 or 2 says as printed, agent by agent."""
        return printed_theorem(self.network)

    def __str__(self) -> str:
        lines = [self.headline, *secrets_headlines(self.network, self.detectability)]
        lines += error_lines(map(self._cells, self.ceiling), *self._further, "largest leak")
        lines += [
            f"{name}: {each.in_words(self.network.unit(name))}." for name, each in self.detectability.items()
        ]
        lines += beside_errors(self._errors.values())
        return "\n".join([*lines, *self._footnotes(), *self.notes()])

    def explain(self) -> str:
        """What the paper's theorem says here, and how close the decisions behind the figures were."""
        return "\n".join(self._explanation())

    def _repr_html_(self) -> str:
        from veilnet.report.cards import verdict_card

        return verdict_card(self)

    @property
    def names_blocking(self) -> bool:
        """Whether words name who stands in the way; agents are tried one by one, too slowly in a large network."""
        return self.network.S <= _MOST_AGENTS_IN_WORDS

    @property
    def headline(self) -> str:
        """Whether privacy is free, in one sentence."""
        public = join_names(list(self.network.public))
        if self.achievable:
            private = join_names(list(self.ceiling))
            hidden = (
                f"{private} can be hidden without limit"
                if self.network.prior is None
                else f"the centre need learn nothing about {private}"
            )
            return f"Privacy is free: {hidden}, at no loss on {public}."
        if all(name in self.at_least for name in self.blocked):
            return (
                f"Privacy is free up to the errors below, at no loss on {public}. Whether it is unlimited cannot be "
                f"decided: the network amplifies rounding errors {self.network.conditioning:.0e}-fold."
            )
        if max(self.ceiling.values()) < NOTHING:
            return f"Privacy is not free here: any protection costs accuracy on {public}."
        some = [name for name in self.ceiling if name not in self.blocked]
        tail = f" {join_names(some)} can be hidden entirely." if some else ""
        return f"Privacy is free up to the errors below: they cost nothing on {public}.{tail}"

    def _cells(self, name: str) -> tuple[str, ...]:
        """Its row of the table: errors where nothing is lost, how they grow, who leaks most."""
        ceiling, at_least = self.ceiling[name], "at least " if name in self.at_least else ""
        seen = self.detectability.get(name)  # of a secret the growth of an error would mislead
        grows = f"AUC {seen.auc:.3f}" if seen is not None else at_least + times(1 + ceiling)
        agents = self.blocking[name] if self.names_blocking and seen is None else {}
        leaks = [
            f"{agent} ({'±∞' if np.isinf(without) else times(1 + without)} without it)"
            for agent, without in agents.items()
        ]
        further = (cells[name] for cells in self._further.values())
        return (*self._errors[name].cells(grows), *further, leaks[0] if leaks else "")

    @property
    def _further(self) -> Mapping[str, Mapping[str, str]]:
        """Heading -> private parameter -> cell, of columns beside those of every table of errors."""
        return {}

    @cached_property
    def detectability(self) -> dict[str, Detectability]:
        """How surely the change of each secret is seen where nothing is lost."""
        return detectability(self.network, self.shares.sanitizers) if self.network.secrets else {}

    @cached_property
    def _errors(self) -> dict[str, TypicalError]:
        """What the centre is off by where nothing is lost."""
        sent = None if self.network.is_stream else self.shares.sanitizers
        return typical_errors(self.network, sent, privacy=self.ceiling)

    def _footnotes(self) -> list[str]:
        """What more there is to say to everybody."""
        return []

    def _explanation(self) -> list[str]:
        lines = []
        if self.network.S <= _MOST_AGENTS_IN_WORDS:
            lines.append(self.printed_theorem.compared_with(self.achievable))
        kept = "none" if np.isinf(self.shares.kept) else number(self.shares.kept)
        lines.append(
            "Agents send the combinations of readings that the public estimate depends on. The smallest one kept "
            f"moves it by {kept} of its standard error, the largest one dropped by "
            f"{number(self.shares.dropped)} (threshold {number(self.shares.tolerance)})."
        )
        return lines

    def notes(self) -> list[str]:
        """What to know of its readings, its model and the fit (:mod:`veilnet.verdict.notes`)."""
        return notes_on(self.network, self.shares.sanitizers)


def _shortfall(ceiling: float, limit: float) -> float:
    if np.isinf(limit):
        return 0.0 if np.isinf(ceiling) else 1.0
    return max(0.0, (limit - ceiling) / (1.0 + limit))
