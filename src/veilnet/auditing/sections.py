"""The parts of an audit, by the names users choose them with."""

from __future__ import annotations

from enum import StrEnum


class Section(StrEnum):
    """A part of the audit that can be run alone (``only=``), in the order they are run."""

    DEPLOYED = "deployed"
    PROMISE = "promise"
    ATTACKERS = "attackers"
    LATTICE = "lattice"
    SUMS = "sums"
    COLLUSION = "collusion"
    REPETITION = "repetition"
    MODELS = "models"
    DROPOUT = "dropout"
    BASELINES = "baselines"
    DIFFERENTIAL_PRIVACY = "differential privacy"
    LEDGER = "ledger"

    @property
    def heading(self) -> str:
        """What it is called in a report."""
        return _HEADINGS.get(self, self.value)


_HEADINGS = {
    Section.DEPLOYED: "what is deployed",
    Section.PROMISE: "the promise",
    Section.ATTACKERS: "learned attackers, simulated rows",
    Section.LATTICE: "lattice attack",
    Section.SUMS: "only the sum",
    Section.REPETITION: "repeated releases",
    Section.MODELS: "wrong models",
}
_ERRORS = "± is the RMS error of the best estimate. Guessing uses the prior only."
_PARTS = "± is the RMS error, in brackets relative to guessing; 'raw' is from raw readings."
_INTRODUCTIONS: dict[str, tuple[str, ...]] = {
    Section.DEPLOYED.heading: ("Does every agent run what was planned? Each was run on test readings.",),
    Section.PROMISE.heading: (
        "Is the plan as good as it says? Every promise was recomputed from network and sanitizers, then tested "
        "on simulated readings.",
        _ERRORS,
    ),
    "what stays exposed": (
        "What do the messages still reveal? If a parameter has several numbers, one combination may be better "
        "known than the whole.",
    ),
    Section.ATTACKERS.heading: (
        "What does an attacker learn from messages with the truth beside them? Rows are simulated from the "
        "model, so this does not test the model.",
        _PARTS,
    ),
    "attackers on your data": (
        "What do attackers learn from messages on your rows? Training and test rows are from different "
        "stretches of time; attackers with memory also use past messages.",
        _PARTS,
        "AUC is how often, of two moments, the one with the value ranks higher; 0.50 is guessing.",
    ),
    Section.LATTICE.heading: (
        "Do exact numbers reveal readings that come in steps (0.1 °C)? The attacker knows the steps and "
        "searches for readings that fit every message; the linear attacker ignores the steps.",
        "± is the RMS error of the attacker's estimate on the same rows.",
    ),
    Section.SUMS.heading: (
        "Does the centre see only sums? Members ran the rounds in memory under this plan's terms, against a "
        "lying centre; what follows from everything it saw was computed.",
        _ERRORS,
    ),
    Section.COLLUSION.heading: (
        "What if agents help the centre? They hand over their own raw readings, or the noise they added. 'Raw "
        "readings' is what the same helpers would allow if nobody sanitized anything.",
        _ERRORS,
    ),
    Section.REPETITION.heading: (
        "What if the same x is released repeatedly? A plan for single rows covers one release of one x; raw "
        "readings released as often reveal more, too. A plan for streams counts every row.",
        "'Error falls below' gives the number of releases after which half of the promised privacy is gone, or "
        "less is left than was required.",
        _ERRORS,
    ),
    Section.MODELS.heading: (
        "What if the model is not quite right? Messages and raw readings are compared under the same true "
        "model, with an attacker who knows equally much.",
    ),
    Section.DROPOUT.heading: (
        "What if agents fall silent? How much larger the public standard error is than from raw readings of all "
        "agents.",
    ),
    Section.BASELINES.heading: (
        "Would another protection do better? Each was tuned to cost the public estimate no more than the plan, "
        "and then to hide as much as the plan. Secure summation needs cryptographic rounds between agents in "
        "every row; here every agent sanitizes alone.",
    ),
    Section.DIFFERENTIAL_PRIVACY.heading: (
        "What is the noise worth as differential privacy? The smaller ε, the less a message reveals about an "
        "agent's readings; below 1 is strong.",
    ),
}


def introduction(section: str) -> tuple[str, ...]:
    """What a section of the report asks, and what its figures are, in plain sentences; none where it has no words."""
    return _INTRODUCTIONS.get(section, ())
