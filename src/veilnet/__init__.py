"""Share sensor data for one estimate while provably limiting the others.

Every public name is here: ``import veilnet as vn``, then ``vn.Network``, ``vn.check``, ``vn.design``...
Names are imported when first used, so that importing veilnet costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from veilnet._core.errors import (
        Infeasible,
        InvalidNetwork,
        InvalidPlan,
        InvalidReading,
        InvalidRequest,
        MissingExtra,
        NotObservable,
        VeilnetError,
    )
    from veilnet.agent.memory import Memory
    from veilnet.agent.sanitizer import Sanitizer
    from veilnet.agent.stream import Stream
    from veilnet.auditing.auditor import Audit, audit
    from veilnet.auditing.ledger import Ledger
    from veilnet.auditing.options import DifferentialPrivacy, LedgerCheck, Trials, WhatIf
    from veilnet.bounds.detectability import Detectability, detectability
    from veilnet.bounds.knowledge import bits_revealed, crlb, privacy, privacy_limit, utility
    from veilnet.calibration.fitting import Calibration, DoubtfulModel, fit, fit_report
    from veilnet.centre.drift import Drift
    from veilnet.centre.estimates import Estimate
    from veilnet.centre.fusion import Fusion
    from veilnet.designs.choice import design
    from veilnet.designs.frontiers import Frontier, Point, frontier
    from veilnet.designs.questions import Worst
    from veilnet.designs.secrets import Accuracy, Auc, Mu, Power
    from veilnet.designs.standard_errors import AtLeast, Times
    from veilnet.model.coloured import ColouredNoise
    from veilnet.model.common import CommonNoise
    from veilnet.model.doubts import Doubt
    from veilnet.model.dynamics import Dynamics
    from veilnet.model.network import Network, Prior
    from veilnet.model.secret import Secret
    from veilnet.plans.plan import Plan
    from veilnet.plans.verification import verify
    from veilnet.sums.merging import SumGroups
    from veilnet.symbols.learning import learn_symbols
    from veilnet.symbols.plan import SymbolPlan
    from veilnet.verdict.exact_test import Verdict, check

__version__ = "0.2.0"

__all__ = [
    "Accuracy",
    "AtLeast",
    "Auc",
    "Audit",
    "Calibration",
    "ColouredNoise",
    "CommonNoise",
    "Detectability",
    "DifferentialPrivacy",
    "Doubt",
    "DoubtfulModel",
    "Drift",
    "Dynamics",
    "Estimate",
    "Frontier",
    "Fusion",
    "Infeasible",
    "InvalidNetwork",
    "InvalidPlan",
    "InvalidReading",
    "InvalidRequest",
    "Ledger",
    "LedgerCheck",
    "Memory",
    "MissingExtra",
    "Mu",
    "Network",
    "NotObservable",
    "Plan",
    "Point",
    "Power",
    "Prior",
    "Sanitizer",
    "Secret",
    "Stream",
    "SumGroups",
    "SymbolPlan",
    "Times",
    "Trials",
    "VeilnetError",
    "Verdict",
    "WhatIf",
    "Worst",
    "audit",
    "bits_revealed",
    "check",
    "crlb",
    "design",
    "detectability",
    "fit",
    "fit_report",
    "frontier",
    "learn_symbols",
    "privacy",
    "privacy_limit",
    "utility",
    "verify",
]

# Where each name lives.
_NAMES_IN = {
    "_core.errors": (
        "VeilnetError",
        "InvalidNetwork",
        "NotObservable",
        "Infeasible",
        "InvalidReading",
        "InvalidRequest",
        "InvalidPlan",
        "MissingExtra",
    ),
    "model.doubts": ("Doubt",),
    "model.network": ("Network", "Prior"),
    "model.dynamics": ("Dynamics",),
    "model.coloured": ("ColouredNoise",),
    "model.common": ("CommonNoise",),
    "model.secret": ("Secret",),
    "bounds.detectability": ("detectability", "Detectability"),
    "bounds.knowledge": ("crlb", "utility", "privacy", "privacy_limit", "bits_revealed"),
    "agent.memory": ("Memory",),
    "agent.sanitizer": ("Sanitizer",),
    "agent.stream": ("Stream",),
    "verdict.exact_test": ("check", "Verdict"),
    "designs.choice": ("design",),
    "designs.questions": ("Worst",),
    "designs.secrets": ("Accuracy", "Auc", "Mu", "Power"),
    "designs.standard_errors": ("AtLeast", "Times"),
    "designs.frontiers": ("frontier", "Frontier", "Point"),
    "plans.plan": ("Plan",),
    "plans.verification": ("verify",),
    "sums.merging": ("SumGroups",),
    "centre.estimates": ("Estimate",),
    "centre.fusion": ("Fusion",),
    "centre.drift": ("Drift",),
    "calibration.fitting": ("fit", "fit_report", "Calibration", "DoubtfulModel"),
    "symbols.learning": ("learn_symbols",),
    "symbols.plan": ("SymbolPlan",),
    "auditing.auditor": ("audit", "Audit"),
    "auditing.ledger": ("Ledger",),
    "auditing.options": ("WhatIf", "Trials", "DifferentialPrivacy", "LedgerCheck"),
}
_MODULE_OF = {name: f"{__name__}.{module}" for module, names in _NAMES_IN.items() for name in names}


def __getattr__(name: str) -> Any:
    module_name = _MODULE_OF.get(name)
    if module_name is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(module_name), name)
    return value


def __dir__() -> list[str]:
    return list(__all__)
