"""The parts of an audit, by the names users choose them with."""

from __future__ import annotations

from enum import StrEnum


class Section(StrEnum):
    """A part of the audit that can be run alone (``only=``), in the order they are run."""

    DEPLOYED = "deployed"
    PROMISE = "promise"
    ATTACKERS = "attackers"
    LATTICE = "lattice"
    COLLUSION = "collusion"
    REPETITION = "repetition"
    MODELS = "models"
    DROPOUT = "dropout"
    BASELINES = "baselines"
    DIFFERENTIAL_PRIVACY = "differential privacy"
    LEDGER = "ledger"
