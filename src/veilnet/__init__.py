"""Share sensor data for one estimate while provably limiting the others.

Every public name is here: ``import veilnet as vn``, then ``vn.Network``, ``vn.check``, ``vn.design``...
Names are imported when first used, so that importing veilnet costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the same names, for those who read types
    from veilnet._core.errors import Infeasible as Infeasible
    from veilnet._core.errors import InvalidNetwork as InvalidNetwork
    from veilnet._core.errors import InvalidPlan as InvalidPlan
    from veilnet._core.errors import InvalidReading as InvalidReading
    from veilnet._core.errors import InvalidRequest as InvalidRequest
    from veilnet._core.errors import MissingExtra as MissingExtra
    from veilnet._core.errors import NotObservable as NotObservable
    from veilnet._core.errors import VeilnetError as VeilnetError
    from veilnet.agent.memory import Memory as Memory
    from veilnet.agent.sanitizer import Sanitizer as Sanitizer
    from veilnet.agent.stream import Stream as Stream
    from veilnet.auditing.auditor import Audit as Audit
    from veilnet.auditing.auditor import audit as audit
    from veilnet.auditing.ledger import Ledger as Ledger
    from veilnet.auditing.options import DifferentialPrivacy as DifferentialPrivacy
    from veilnet.auditing.options import LedgerCheck as LedgerCheck
    from veilnet.auditing.options import Trials as Trials
    from veilnet.auditing.options import WhatIf as WhatIf
    from veilnet.bounds.detectability import Detectability as Detectability
    from veilnet.bounds.detectability import detectability as detectability
    from veilnet.bounds.knowledge import bits_revealed as bits_revealed
    from veilnet.bounds.knowledge import crlb as crlb
    from veilnet.bounds.knowledge import privacy as privacy
    from veilnet.bounds.knowledge import privacy_limit as privacy_limit
    from veilnet.bounds.knowledge import utility as utility
    from veilnet.calibration.fitting import Calibration as Calibration
    from veilnet.calibration.fitting import DoubtfulModel as DoubtfulModel
    from veilnet.calibration.fitting import fit as fit
    from veilnet.calibration.fitting import fit_report as fit_report
    from veilnet.centre.drift import Drift as Drift
    from veilnet.centre.estimates import Estimate as Estimate
    from veilnet.centre.fusion import Fusion as Fusion
    from veilnet.designs.choice import design as design
    from veilnet.designs.frontiers import Frontier as Frontier
    from veilnet.designs.frontiers import Point as Point
    from veilnet.designs.frontiers import frontier as frontier
    from veilnet.designs.questions import AtLeast as AtLeast
    from veilnet.designs.questions import Times as Times
    from veilnet.designs.questions import Worst as Worst
    from veilnet.designs.secrets import Accuracy as Accuracy
    from veilnet.designs.secrets import Auc as Auc
    from veilnet.designs.secrets import Mu as Mu
    from veilnet.designs.secrets import Power as Power
    from veilnet.model.coloured import ColouredNoise as ColouredNoise
    from veilnet.model.common import CommonNoise as CommonNoise
    from veilnet.model.doubts import Doubt as Doubt
    from veilnet.model.dynamics import Dynamics as Dynamics
    from veilnet.model.network import Network as Network
    from veilnet.model.network import Prior as Prior
    from veilnet.model.secret import Secret as Secret
    from veilnet.plans.plan import Plan as Plan
    from veilnet.plans.verification import verify as verify
    from veilnet.sums.merging import SumGroups as SumGroups
    from veilnet.symbols.learning import learn_symbols as learn_symbols
    from veilnet.symbols.plan import SymbolPlan as SymbolPlan
    from veilnet.verdict.exact_test import Verdict as Verdict
    from veilnet.verdict.exact_test import check as check

__version__ = "0.2.0"

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
    "designs.questions": ("AtLeast", "Times", "Worst"),
    "designs.secrets": ("Accuracy", "Auc", "Mu", "Power"),
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
__all__ = sorted(_MODULE_OF)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    module_name = _MODULE_OF.get(name)
    if module_name is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(module_name), name)
    return value


def __dir__() -> list[str]:
    return __all__
