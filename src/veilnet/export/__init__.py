"""One agent as C99, for a microcontroller: constants of its plan beside code that every agent shares.

``c/`` holds that code: ``veilnet_agent.c`` makes numbers of readings, ``symbols.c`` a symbol, ``wire.c`` messages of
those, ``journal.c`` keeps in flash what was taken and what waits for a receipt, and
``release.c`` does all of it for a row, in the order that protects it. None of them allocates, and none
knows a clock, a network or a source of randomness: those are callbacks. What differs between agents is in
``veilnet_plan.h``.
"""

from __future__ import annotations

from veilnet.export.c_source import Arithmetic, export_c, rounding

__all__ = ["Arithmetic", "export_c", "rounding"]
