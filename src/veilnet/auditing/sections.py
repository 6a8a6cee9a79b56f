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
_ERRORS = (
    "± is a typical error: the root mean square of the best estimate. Guessing is knowing only what was known before "
    "any message."
)
_PARTS = "± is a typical error, in brackets as a part of guessing's; 'raw' is from raw readings."
_INTRODUCTIONS: dict[str, tuple[str, ...]] = {
    Section.DEPLOYED.heading: (
        "Does every agent run what was planned? Each one was run on readings we chose.",
    ),
    Section.PROMISE.heading: (
        "Is the plan as good as it says? Every promise was computed again from the network and the sanitizers, then "
        "put to the test on simulated readings.",
        _ERRORS,
    ),
    "what stays exposed": (
        "What do the messages still tell? Of a parameter that is several numbers, one combination of them may be "
        "known better than the whole.",
    ),
    Section.ATTACKERS.heading: (
        "What does somebody learn who has messages beside the truth? Rows are simulated from the model, so this says "
        "nothing about the world.",
        _PARTS,
    ),
    "attackers on your data": (
        "What do attackers learn from what is sent on your rows? Each learned from other stretches of time than it "
        "is judged on; with memory, from past messages too.",
        _PARTS,
        "AUC is how often, of two moments, the one with the value is recognised; 0.50 is guessing.",
    ),
    Section.LATTICE.heading: (
        "Do exact numbers name readings that come in steps (0.1 °C)? The attacker knows the steps and looks for the "
        "readings that fit every message; the linear attacker does not look for steps.",
        "± is a typical error: the root mean square of the attacker's estimate on the same rows.",
    ),
    Section.SUMS.heading: (
        "Does the centre see sums and nothing else? Members ran the rounds in memory under this plan's terms; a "
        "centre then lied to them, and what follows from all that it saw was computed.",
        _ERRORS,
    ),
    Section.COLLUSION.heading: (
        "What if agents help the centre? They hand over their own raw readings, or the noise they added. 'Raw "
        "readings' is what the same helpers would allow if nobody sanitized anything.",
        _ERRORS,
    ),
    Section.REPETITION.heading: (
        "What if the same x is sent again and again? A plan for single rows promises for one release of one x; "
        "raw readings sent as often reveal more, too. A plan for streams has counted every row.",
        "'Error falls below' says after how many releases half of the promised privacy is gone, or less is left than "
        "was asked to remain.",
        _ERRORS,
    ),
    Section.MODELS.heading: (
        "What if the model is not quite right? Whatever is compared is compared in the same true world: with raw "
        "readings of that world, and with an attacker who knows as much.",
    ),
    Section.DROPOUT.heading: (
        "What if agents fall silent? By how much the variance of the public error grows, compared with raw readings "
        "of all agents.",
    ),
    Section.BASELINES.heading: (
        "Would another protection do better? Each was tuned to cost the public estimate no more than the plan does, "
        "and then to hide as much as the plan hides. Secure summation needs agents that talk to each other in every "
        "row, and cryptography among them; here every agent sanitizes alone.",
    ),
    Section.DIFFERENTIAL_PRIVACY.heading: (
        "What does the noise amount to in the words of differential privacy? The smaller ε, the less one message "
        "tells about an agent's readings; below 1 is strong.",
    ),
}


def introduction(section: str) -> tuple[str, ...]:
    """What a section of the report asks, and what its figures are, in plain sentences; none where it has no words."""
    return _INTRODUCTIONS.get(section, ())
