"""Three verdicts on an attacker: the promise holds, it is broken, or this attacker cannot tell.

That an attacker failed is evidence only where it could have succeeded. It could where it beats the promise on raw
readings, and where a leak of half that size would have been found at the false-alarm rate. Everything else, an
attacker who only guesses on raw readings or who does worse than guessing on messages, proves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from veilnet.auditing.row import Judgement

_MATTERS = 0.5  # of what raw readings tell beyond the promise: a leak of this size has to be found
_RAW_CHANCE = 0.01  # at which raw readings have to beat the promise, or guessing
# a plan that promises to hide no more than this part of what raw readings tell has little to break
_HARDLY = 0.05
_OTHER_WORLD = (
    "this attacker learns nothing from data and estimates as the model says, and the model does not describe these "
    "data, so this proves nothing."
)


@dataclass(frozen=True)
class Evidence:
    """What one attacker knows of one parameter. Amounts are on one scale, more tells more, and guessing tells 0.

    sent, raw, promised: what it knows from messages and from raw readings, and what the plan allows from messages.
    raw_allowed:         what the model allows from raw readings.
    reach:               how much more than promised it could have been seen to know.
    beaten:              p-value: how often it would know so much from messages if the promise held.
    raw_beats:           p-value: how often it would know so much from raw readings if the promise held for them.
    raw_knows:           p-value: how often it would know so much from raw readings if they revealed nothing.
    """

    sent: float
    raw: float
    promised: float
    raw_allowed: float
    reach: float
    beaten: float
    raw_beats: float
    raw_knows: float

    @property
    def gap(self) -> float:
        """What it knows from raw readings beyond the promise."""
        return self.raw - self.promised

    @property
    def hardly_protects(self) -> bool:
        """Whether the plan lets nearly all through that raw readings tell."""
        return self.raw_allowed - self.promised <= _HARDLY * self.raw_allowed


def verdict_on(
    evidence: Evidence, chance: float, *, found_at: str, learned: bool = True
) -> tuple[Judgement, str]:
    """The verdict at a rate of false alarms, and why in one sentence (empty where it is broken).

    found_at: what would have been found, in the user's units: "an error of ±2.1 °C or less"; empty for nothing.
    learned:  whether the attacker learned from data; else it takes the model's word for everything.
    """
    if evidence.beaten < chance:
        return "fail", ""
    if evidence.hardly_protects:
        return "ok", "The plan hides hardly anything that raw readings reveal, so there is little to break."
    if evidence.raw_knows > _RAW_CHANCE:
        # Better than guessing, and yet not beyond chance, is something else to say than no better.
        better = evidence.raw > _HARDLY * evidence.raw_allowed
        better_than_guessing = "is better than guessing, but not significantly with so few independent rows"
        how = better_than_guessing if better else "does no better than guessing"
        if not learned:
            return "cannot tell", f"Even from raw readings it {how}: {_OTHER_WORLD}"
        return "cannot tell", f"Even on raw readings it {how}, so this proves nothing."
    if evidence.raw_beats > _RAW_CHANCE:
        beats = (
            "beats the promise by no more than chance" if evidence.gap > 0 else "does not beat the promise"
        )
        return "cannot tell", (
            f"This attacker {beats} even on raw readings, so its failure on messages proves nothing."
        )
    if evidence.sent < -_MATTERS * evidence.gap:
        if not learned:
            return "cannot tell", f"From what was sent it does worse than guessing: {_OTHER_WORLD}"
        return "cannot tell", (
            "On messages it does worse than guessing: what it learned in one stretch of time does not hold in "
            "another, so this proves nothing."
        )
    if evidence.reach > _MATTERS * evidence.gap:
        if not found_at:
            return "cannot tell", (
                "These rows are too few, or too alike: even an attacker who knows the truth would not have been "
                "detected."
            )
        return "cannot tell", f"Only {found_at} would have been found on these rows."
    return "ok", f"What would have been found is {found_at}."
