"""Let a fusion centre learn what it was promised, and nothing else.

Every public name is here: ``import veilnet as vn``, then ``vn.Network``, ``vn.check``, ``vn.design``...
Names are imported when first used, so that importing veilnet costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from veilnet.asup import Verdict, check
    from veilnet.auditing import audit
    from veilnet.bounds import bits_revealed, crlb, privacy, privacy_limit, utility
    from veilnet.calibrate import fit
    from veilnet.curve import Frontier, frontier
    from veilnet.designs import design
    from veilnet.errors import (
        Infeasible,
        InvalidNetwork,
        InvalidPlan,
        InvalidReading,
        MissingExtra,
        NotObservable,
        VeilnetError,
    )
    from veilnet.fusion import Estimate, Fusion
    from veilnet.network import Network, Prior
    from veilnet.plan import Plan
    from veilnet.sanitizer import Sanitizer

__version__ = "0.1.0"

__all__ = [
    "Estimate",
    "Frontier",
    "Fusion",
    "Infeasible",
    "InvalidNetwork",
    "InvalidPlan",
    "InvalidReading",
    "MissingExtra",
    "Network",
    "NotObservable",
    "Plan",
    "Prior",
    "Sanitizer",
    "VeilnetError",
    "Verdict",
    "audit",
    "bits_revealed",
    "check",
    "crlb",
    "design",
    "fit",
    "frontier",
    "privacy",
    "privacy_limit",
    "utility",
]

# Where each name lives. No module may bear the name of a public function, since importing a module
# `veilnet.check` would bind it to `vn.check`: hence asup, designs, curve and auditing.
_NAMES_IN = {
    "errors": (
        "VeilnetError",
        "InvalidNetwork",
        "NotObservable",
        "Infeasible",
        "InvalidReading",
        "InvalidPlan",
        "MissingExtra",
    ),
    "network": ("Network", "Prior"),
    "bounds": ("crlb", "utility", "privacy", "privacy_limit", "bits_revealed"),
    "sanitizer": ("Sanitizer",),
    "asup": ("check", "Verdict"),
    "designs": ("design",),
    "plan": ("Plan",),
    "fusion": ("Fusion", "Estimate"),
    "curve": ("frontier", "Frontier"),
    "calibrate": ("fit",),
    "auditing": ("audit",),
}
_MODULE_OF = {name: f"{__name__}.{module}" for module, names in _NAMES_IN.items() for name in names}


def __getattr__(name: str) -> Any:
    module_name = _MODULE_OF.get(name)
    if module_name is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(module_name), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
