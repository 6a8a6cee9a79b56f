"""Networks that outgrow a machine: agents in a folder of parts, worked on by the workers of a Dask cluster.

``save_parts`` writes such a folder, ``open_parts`` opens it; ``check``, ``design``, ``verify``, ``sanitize``,
``fuse`` and ``audit`` take it with ``client=`` a ``dask.distributed`` client, or without one, to do the same here,
with the same bits as a result.
"""

from veilnet.cluster.auditing import audit
from veilnet.cluster.calls import check, design, verify
from veilnet.cluster.fusing import MissingAgents, fuse
from veilnet.cluster.messages import Messages, Sanitized, open_messages, sanitize, save_messages
from veilnet.cluster.parts import Parts, open_parts, save_parts
from veilnet.cluster.plans import PartsPlan, PartsVerdict, agent_file, numbers_sent
from veilnet.cluster.running import connect, local_cluster

__all__ = [
    "Messages",
    "MissingAgents",
    "Parts",
    "PartsPlan",
    "PartsVerdict",
    "Sanitized",
    "agent_file",
    "audit",
    "check",
    "connect",
    "design",
    "fuse",
    "local_cluster",
    "numbers_sent",
    "open_messages",
    "open_parts",
    "sanitize",
    "save_messages",
    "save_parts",
    "verify",
]
