"""The audit: attack every promise before someone else does.

Read ``auditor`` first: :func:`audit` runs the sections one after the other; ``options`` has what it can be asked.
``deployed`` runs what is deployed as black boxes, ``promise`` recomputes what was promised, ``attack`` lets attackers
loose on it, ``what_if`` asks what happens when agents collude, releases repeat, models are wrong and agents fall
silent; ``baselines`` compares with other mechanisms and ``ledger`` counts releases.
The page on the audit explains every row.
"""

from veilnet.auditing.auditor import Audit, audit
from veilnet.auditing.ledger import Ledger
from veilnet.auditing.options import DifferentialPrivacy, LedgerCheck, Trials, WhatIf
from veilnet.auditing.report import AuditReport, Row

__all__ = [
    "Audit",
    "AuditReport",
    "DifferentialPrivacy",
    "Ledger",
    "LedgerCheck",
    "Row",
    "Trials",
    "WhatIf",
    "audit",
]
