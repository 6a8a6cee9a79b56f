"""What was recomputed of a plan, in words: privacies and losses are growths of error variances."""

from __future__ import annotations

from veilnet._core.words import times
from veilnet.bounds.detectability import Detector
from veilnet.plans.certificate import CHANGE_OF, DITHERED, LOSS_ALLOWED, NOISE_POWER

__all__ = ["finding_in_words", "growth_in_words"]

_GROWTHS = {
    "privacy of ": "error variance on {} grows",
    "target of ": "as was asked of {}",
    "every direction of ": "as was asked of every direction of {}",
    "no less than is free of ": "no less than is free, of {}",
}


def finding_in_words(what: str, public: str) -> str:
    """What was looked at, for a reader.

    what:   as the certificate or the verification of a folder calls it.
    public: the names of the public parameters, in words.
    """
    plain = {
        "utility": f"error variance on {public} grows",
        LOSS_ALLOWED: f"error variance on {public} may grow",
        DITHERED: "agents that forget to dither",
        "grids": "messages are rounded finely enough for their noise",
        "names, limits, resolution, step": "agents know their readings' names, limits and steps, and that of rows",
    }
    if what.startswith(NOISE_POWER):
        return f"noise added by {what.removeprefix(NOISE_POWER)}, nearest its limit (variance over all its readings)"
    if what.startswith(CHANGE_OF):
        return f"{what}: AUC of the best detector, at most"
    for beginning, words in _GROWTHS.items():
        if what.startswith(beginning):
            return words.format(what.removeprefix(beginning))
    return f"{what} is intact" if what.endswith(".json") else plain.get(what, what)


def growth_in_words(what: str, value: float) -> str:
    """Its figure, for a reader: ``10.2-fold``."""
    if what == "utility":
        return times(1 - value)
    if what == LOSS_ALLOWED or what.startswith(tuple(_GROWTHS)):
        return times(1 + value)
    if what.startswith(CHANGE_OF):
        return f"{Detector(value).auc:.3f}"
    return f"{value:g}"
